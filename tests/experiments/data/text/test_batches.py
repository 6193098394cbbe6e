"""Rows of text as functions of (seed, item)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.experiments.data.text.batches import first_tokens, text_rows
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Specials

ABSENT, FIXED, RANDOM = (first_tokens(policy, ByteTokenizer()) for policy in ("absent", "fixed", "random"))
# Every id tells its place in the corpus.
TOKENS = np.arange(1000, dtype=np.uint16)


class _WithoutBos(ByteTokenizer):
    specials = Specials(pad=0, eos=4)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    vocabulary_size = 6  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def test_what_each_policy_may_draw() -> None:
    assert (ABSENT.tolist(), FIXED.tolist(), RANDOM.tolist()) == ([], [257], list(range(256)))
    assert first_tokens("random", _WithoutBos()).tolist() == [1, 2, 3, 5]
    with pytest.raises(UserError, match="needs a BOS"):
        first_tokens("fixed", _WithoutBos())


@given(seed=st.integers(0, 2**63), first=st.integers(0, 10**9), items=st.integers(2, 40), length=st.integers(1, 90))
@settings(max_examples=30)
def test_a_row_depends_on_seed_and_item_alone(seed: int, first: int, items: int, length: int) -> None:
    item = first + np.arange(items)
    rows = text_rows(TOKENS, seed, item, length, RANDOM)
    assert (rows.shape, rows.dtype) == ((items, length + 1), np.int32)
    np.testing.assert_array_equal(text_rows(TOKENS, seed, item[1:], length, RANDOM), rows[1:])


@pytest.mark.parametrize(("policy", "size"), [(ABSENT, 11), (FIXED, 10), (RANDOM, 10)])
def test_every_window_comes_once_an_epoch(policy: np.ndarray, size: int) -> None:
    windows = 1000 // size
    text = text_rows(TOKENS, 5, np.arange(3 * windows), 10, policy)[:, -size:]
    np.testing.assert_array_equal(np.diff(text), 1)
    orders = text[:, 0].reshape(3, windows)
    np.testing.assert_array_equal(np.sort(orders), np.tile(size * np.arange(windows), (3, 1)))
    assert len({order.tobytes() for order in orders}) == 3
    assert len({text_rows(TOKENS, seed, np.arange(16), 10, policy).tobytes() for seed in range(5)}) == 5


def test_random_first_tokens_are_uniform_and_drawn_again_each_epoch() -> None:
    rows = text_rows(TOKENS, 0, np.arange(25_600), 10, RANDOM)
    by_window = [epoch[np.argsort(epoch[:, 1]), 0] for epoch in rows[:200].reshape(2, 100, 11)]
    # Of 100 windows, 100 / 256 draw the same id twice on average.
    assert (by_window[0] == by_window[1]).sum() < 6
    # Five standard deviations of 100 expected draws of each id.
    assert np.abs(np.bincount(rows[:, 0], minlength=256) - 100).max() < 50
    assert (text_rows(TOKENS, 0, np.arange(8), 10, FIXED)[:, 0] == 257).all()


def test_a_window_longer_than_the_text_names_both() -> None:
    with pytest.raises(UserError, match=r"1000 takes 1001 tokens .* has 1000"):
        text_rows(TOKENS, 0, np.arange(1), 1000, ABSENT)
    assert text_rows(TOKENS, 0, np.arange(1), 1000, FIXED).shape == (1, 1001)
