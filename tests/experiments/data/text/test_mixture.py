"""Rows of text as functions of (seed, item), and of mixtures: exact shares, and one corpus as by itself."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.experiments.config.data import Mixture, MixturePart, TextData
from leadline.experiments.data.source import open_source
from leadline.experiments.data.text.batches import first_tokens, text_rows
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.held_out import documents_of, held_out_windows
from leadline.experiments.data.text.source import TextSource, WeightedText, scheduled, shares_of
from leadline.experiments.data.text.tokens import TokenFiles
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from tests.experiments.data.corpora import write_corpus

ABSENT, FIXED, RANDOM = (first_tokens(policy, ByteTokenizer()) for policy in ("absent", "fixed", "random"))
# Every id tells its place in the corpus.
TOKENS = np.arange(1000, dtype=np.uint16)
EOS = 9999
LENGTH = 9
# Every id tells its part and its place. In windows of ten: 30, 7 and 12 of them.
STARTS = (0, 1000, 2000)


def _files(start: int, tokens: int) -> TokenFiles:
    train = np.arange(start, start + tokens, dtype=np.uint16)
    held_out = train + np.uint16(10_000)
    held_out[24::25] = EOS
    return TokenFiles(train, held_out, 1, tokens // 25, f"digest of {start}")


def _text(*weights: float, first: np.ndarray = ABSENT, sizes: tuple[int, ...] = (300, 75, 125)) -> WeightedText:
    parts = tuple(_files(start, tokens) for start, tokens in zip(STARTS, sizes, strict=True))[: len(weights)]
    texts = [[Document("a", b"x" * 24)] * part.held_out_documents for part in parts]
    documents = tuple(documents_of(text, part.held_out, EOS) for text, part in zip(texts, parts, strict=True))
    return WeightedText(parts, documents, ("one", "two", "three")[: len(weights)], shares_of(weights), first)


def _rows(text: WeightedText, seed: int, steps: int, batch: int) -> np.ndarray:
    return np.concatenate([text.batch(seed, step, batch, LENGTH) for step in range(steps)])


def test_what_each_policy_may_draw() -> None:
    assert (ABSENT.tolist(), FIXED.tolist(), RANDOM.tolist()) == ([], [257], list(range(256)))


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


@given(weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=6), first=st.integers(0, 2**42), items=st.integers(1, 3000))
def test_shares_are_exact_at_every_step_and_every_item_comes_once(weights: list[float], first: int, items: int) -> None:
    part, place = scheduled(np.arange(items), shares_of(weights))
    counts = np.bincount(part, minlength=len(weights))
    expected = items * np.array(weights) / sum(weights)
    # Half an item a part, and what rounding to 2^-20 comes to.
    assert np.abs(counts - expected).max() <= len(weights) / 2 + items * 2.0**-18
    later, later_place = scheduled(first + np.arange(500), shares_of(weights))
    for number, count in enumerate(counts):
        np.testing.assert_array_equal(place[part == number], np.arange(count))
        np.testing.assert_array_equal(np.diff(later_place[later == number]), 1)


def test_no_part_is_rounded_away() -> None:
    assert shares_of([1e-9, 1.0]) == (1, 2**20)
    assert shares_of([1.0, 1e-9]) == (2**20 - 1, 2**20)
    assert shares_of([3.0, 1.0]) == shares_of([6.0, 2.0]) == (3 * 2**18, 2**20)


def test_every_window_of_a_part_comes_once_an_epoch_of_it() -> None:
    rows = _rows(_text(5.0, 2.0, 1.0), seed=3, steps=100, batch=8)
    assert np.bincount(rows[:, 0] // 1000).tolist() == [500, 200, 100]
    np.testing.assert_array_equal(np.diff(rows), 1)
    for start, windows in zip(STARTS, (30, 7, 12), strict=True):
        places = [int(i) - start for i in rows[:, 0] if i // 1000 == start // 1000]
        epochs = [places[i : i + windows] for i in range(0, len(places) - windows + 1, windows)]
        assert len(epochs) > 7
        assert all(sorted(epoch) == list(range(0, 10 * windows, 10)) for epoch in epochs)
        assert len(set(map(tuple, epochs))) == len(epochs)


def test_rows_do_not_depend_on_batches_but_on_their_part() -> None:
    text = _text(5.0, 2.0, 1.0, first=RANDOM)
    np.testing.assert_array_equal(text.batch(4, 0, 60, LENGTH), _rows(text, seed=4, steps=10, batch=6))
    rows = _rows(_text(1.0, 1.0, sizes=(500, 500, 25)), seed=0, steps=10, batch=20)
    first, second = (rows[rows[:, 0] // 1000 == number, 0] % 1000 for number in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("first", [ABSENT, RANDOM])
def test_one_part_is_its_corpus(first: np.ndarray) -> None:
    text = _text(0.3, first=first)
    np.testing.assert_array_equal(
        text.batch(2, 3, 7, LENGTH), text_rows(text.parts[0].train, 2, 21 + np.arange(7), LENGTH, first)
    )
    for stride in (None, 4):
        drawn, expected = text.held_out(LENGTH, 9, stride), held_out_windows(text.documents[0], LENGTH, 9, first, stride)
        for name in ("windows", "counted", "documents"):
            np.testing.assert_array_equal(getattr(drawn, name), getattr(expected, name))
    assert text.digest == "digest of 0"


@pytest.mark.parametrize(("windows", "expected"), [(24, [15, 6, 3]), (10_000, [19, 7, 4])])
def test_held_out_windows_have_the_shares_of_the_weights(windows: int, expected: list[int]) -> None:
    """The second part has seven windows, and so ends the draw."""
    drawn = _text(5.0, 2.0, 1.0).held_out(LENGTH, windows)
    part = (drawn.windows.min(axis=1, where=drawn.windows != EOS, initial=60_000) - 10_000) // 1000
    assert np.bincount(part).tolist() == expected
    np.testing.assert_array_equal(np.searchsorted([12, 15], drawn.documents[:, 0], "right"), part)  # 12, 3 and 5 documents


def test_too_little_held_out_text_names_the_part() -> None:
    message = "two, a part of the mixture: a window of 100 takes 101 tokens and the held-out text has 75"
    with pytest.raises(UserError, match=message):
        _text(1.0, 1.0).held_out(100, 4)


def test_the_digest_is_of_parts_and_shares() -> None:
    assert _text(3.0, 1.0).digest == _text(6.0, 2.0).digest
    assert len({_text(*weights).digest for weights in ((3.0, 1.0), (1.0, 1.0), (3.0, 1.0, 1.0), (3.0,))}) == 4


def _data(*parts: tuple[object, float]) -> TextData:
    mixture = Mixture(parts=tuple(MixturePart(corpus=(str(corpus),), weight=weight) for corpus, weight in parts))
    return TextData(corpus=mixture, length=16, held_out=0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for style in (str.lower, str.upper):
        write_corpus(folder / style.__name__, 200, code=False, style=style)
    return folder


def test_a_source_deals_text_by_weight(folder: Path) -> None:
    source = open_source(_data((folder / "lower", 3.0), (folder / "upper", 1.0)), folder / "cache")
    assert isinstance(source, TextSource)
    for rows in (source.inputs(0, 5, 40), source.text.held_out(16, 16).windows):
        assert sum(bytes(row[row < 256].astype(np.uint8)).isupper() for row in rows) == len(rows) / 4
    strided, of_bytes = source.text.held_out(16, 64, 8), source.held_out_bytes(2000)
    for ids in (source.stream(2000).windows[0], *(text.windows[:, 1:][text.counted] for text in (strided, of_bytes))):
        upper, lower = (np.isin(ids, list(letters)).sum() for letters in (b"SAYTHIME", b"saythime"))
        assert abs(upper / (upper + lower) - 0.25) < 0.03
    assert source.described["name"]["parts"][1] == {"corpus": [f"{folder}/upper"], "weight": 1.0}


def test_one_part_has_the_digest_of_its_corpus(folder: Path) -> None:
    alone = [_data((folder / "lower", 2.0)), TextData(corpus=(f"{folder}/lower",), length=16, held_out=0.3)]
    assert len({open_source(data, folder / "cache").described["digest"] for data in alone}) == 1


def test_a_part_that_cannot_be_used_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "short.txt").write_text("short")
    for name, complaint in (
        ("nowhere", f"{tmp_path}/nowhere: no such file or folder"),
        ("none", f"{tmp_path}/none: no text in this folder"),
        ("short.txt", r"data\.length = 16"),
    ):
        with pytest.raises(UserError, match=rf"\['{tmp_path}/{name}'\], a part of the mixture: {complaint}"):
            open_source(_data((folder / "lower", 1.0), (tmp_path / name, 1.0)), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
