"""Batches of text as functions of (seed, step)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.data.batches import first_tokens, held_out_windows, text_batch
from experiments.errors import UserError
from tokenization.byte import ByteTokenizer
from tokenization.tokenizer import Specials

ABSENT = first_tokens("absent", ByteTokenizer())
FIXED = first_tokens("fixed", ByteTokenizer())
RANDOM = first_tokens("random", ByteTokenizer())
# Every id tells its place in the corpus.
TOKENS = np.arange(1000, dtype=np.uint16)


class _WithoutBos(ByteTokenizer):
    @property
    def specials(self) -> Specials:
        return Specials(pad=0, eos=4)

    @property
    def vocabulary_size(self) -> int:
        return 6


def test_what_each_policy_may_draw() -> None:
    assert ABSENT.tolist() == []
    assert FIXED.tolist() == [257]
    assert RANDOM.tolist() == list(range(256))
    assert first_tokens("random", _WithoutBos()).tolist() == [1, 2, 3, 5]


def test_a_fixed_first_token_needs_bos() -> None:
    with pytest.raises(UserError, match="needs a BOS"):
        first_tokens("fixed", _WithoutBos())


@given(seed=st.integers(0, 2**63), step=st.integers(0, 10**9), batch=st.integers(1, 40), length=st.integers(1, 90))
def test_a_batch_is_a_function_of_seed_and_step(seed: int, step: int, batch: int, length: int) -> None:
    once, again = (text_batch(TOKENS, seed, step, batch, length, RANDOM) for _ in range(2))
    assert once.shape == (batch, length + 1)
    assert once.dtype == np.int32
    np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize(("bos", "stretch"), [(ABSENT, 11), (FIXED, 10), (RANDOM, 10)])
def test_every_window_comes_once_an_epoch(bos: np.ndarray, stretch: int) -> None:
    windows = 1000 // stretch
    batch = 7
    steps = -(-3 * windows // batch)
    rows = np.concatenate([text_batch(TOKENS, 5, step, batch, 10, bos) for step in range(steps)])
    text = rows[:, -stretch:]
    np.testing.assert_array_equal(np.diff(text), 1)
    orders = [text[e * windows : (e + 1) * windows, 0] // stretch for e in range(3)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(windows))
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[1], orders[2])
    np.testing.assert_array_equal(text[:, 0] % stretch, 0)


def test_a_batch_larger_than_the_corpus_goes_round() -> None:
    batch = text_batch(TOKENS[:30], 0, 0, 12, 9, ABSENT)
    assert sorted(batch[:, 0].tolist()) == [0] * 4 + [10] * 4 + [20] * 4


def test_the_rows_do_not_depend_on_how_they_are_batched() -> None:
    together = text_batch(TOKENS, 3, 0, 60, 20, RANDOM)
    apart = np.concatenate([text_batch(TOKENS, 3, step, 6, 20, RANDOM) for step in range(10)])
    np.testing.assert_array_equal(together, apart)


def test_seeds_give_different_orders() -> None:
    batches = [text_batch(TOKENS, seed, 0, 16, 10, ABSENT) for seed in range(5)]
    assert len({batch.tobytes() for batch in batches}) == 5


def test_a_fixed_first_token_stands_before_the_window() -> None:
    batch = text_batch(TOKENS, 0, 0, 8, 10, FIXED)
    assert (batch[:, 0] == 257).all()


def test_random_first_tokens_are_uniform_and_drawn_afresh_each_epoch() -> None:
    batches = [text_batch(TOKENS, 0, epoch, 100, 10, RANDOM) for epoch in range(2)]
    by_window = [batch[np.argsort(batch[:, 1]), 0] for batch in batches]
    # Of 100 windows, 100 / 256 draw the same id twice on average.
    assert (by_window[0] == by_window[1]).sum() < 6
    first = np.concatenate([text_batch(TOKENS, 0, step, 64, 10, RANDOM)[:, 0] for step in range(400)])
    counts = np.bincount(first, minlength=256)
    assert len(counts) == 256
    # Five standard deviations of 100 expected draws of each id.
    assert np.abs(counts - 100).max() < 50


def test_held_out_windows_follow_the_text() -> None:
    windows = held_out_windows(TOKENS, 10, 99, ABSENT)
    np.testing.assert_array_equal(windows.ravel(), np.arange(9 * 11))
    assert windows.shape == (9, 11)
    fixed = held_out_windows(TOKENS, 10, 99, FIXED)
    np.testing.assert_array_equal(fixed[:, 1:].ravel(), np.arange(9 * 10))
    assert (fixed[:, 0] == 257).all()
    random = held_out_windows(TOKENS, 10, 1000, RANDOM)
    assert random.shape == (100, 11)
    assert len(np.unique(random[:, 0])) > 60
    np.testing.assert_array_equal(random[:9], held_out_windows(TOKENS, 10, 99, RANDOM))


def test_a_window_longer_than_the_text_names_both() -> None:
    with pytest.raises(UserError, match=r"1000 takes 1001 tokens .* has 1000"):
        text_batch(TOKENS, 0, 0, 1, 1000, ABSENT)
    assert text_batch(TOKENS, 0, 0, 1, 1000, FIXED).shape == (1, 1001)
    with pytest.raises(UserError, match=r"1001 takes 1001 tokens .* has 1000"):
        held_out_windows(TOKENS, 1001, 1001, FIXED)


def test_too_little_held_out_text_names_what_would_do() -> None:
    with pytest.raises(UserError, match=r"91 held-out windows of 10 need 1001 tokens.*has 1000; measure on 900 tokens"):
        held_out_windows(TOKENS, 10, 919, ABSENT)
    assert len(held_out_windows(TOKENS, 10, 900, ABSENT)) == 90


def test_too_few_tokens_to_measure_on() -> None:
    with pytest.raises(UserError, match="9 tokens to measure on are less than one window of 10"):
        held_out_windows(TOKENS, 10, 9, ABSENT)
