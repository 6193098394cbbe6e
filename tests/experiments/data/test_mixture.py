"""Mixtures: exact shares, every window of a part once an epoch, and one corpus as before."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.config.data import Mixture, MixturePart, TextData
from experiments.data.batches import first_tokens, held_out_windows, text_batch
from experiments.data.held_out import held_out_text
from experiments.data.mixture import WeightedText, scheduled, shares_of
from experiments.data.source import TextSource, open_source
from experiments.data.tokens import TokenFiles
from experiments.errors import UserError
from tokenization.byte import ByteTokenizer

ABSENT = first_tokens("absent", ByteTokenizer())
RANDOM = first_tokens("random", ByteTokenizer())
EOS = 258
LENGTH = 9
# Every id tells its part and its place. In windows of ten: 30, 7 and 12 of them.
STARTS = (0, 1000, 2000)


def _files(start: int, tokens: int) -> TokenFiles:
    train = np.arange(start, start + tokens, dtype=np.uint16)
    held_out = train + np.uint16(10_000)
    held_out[24::25] = EOS
    return TokenFiles(train, held_out, tokens, tokens, f"digest of {start}")


def _text(*weights: float) -> WeightedText:
    parts = tuple(_files(start, tokens) for start, tokens in zip(STARTS, (305, 70, 120), strict=True))
    return WeightedText(parts[: len(weights)], ("one", "two", "three")[: len(weights)], shares_of(weights))


def _rows(text: WeightedText, seed: int, steps: int, batch: int) -> np.ndarray:
    return np.concatenate([text.batch(seed, step, batch, LENGTH, ABSENT) for step in range(steps)])


@given(weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), first=st.integers(0, 2**42))
def test_the_schedule_counts_every_item_of_a_part_once(weights: list[float], first: int) -> None:
    shares = shares_of(weights)
    part, own = scheduled(first + np.arange(500), shares)
    for number in range(len(weights)):
        counted = own[part == number]
        np.testing.assert_array_equal(np.diff(counted), 1)
        if first == 0 and len(counted):
            assert counted[0] == 0


@given(weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=6), items=st.integers(1, 3000))
def test_shares_are_exact_at_every_step(weights: list[float], items: int) -> None:
    part, own = scheduled(np.arange(items), shares_of(weights))
    counts = np.bincount(part, minlength=len(weights))
    expected = items * np.array(weights) / sum(weights)
    # Half an item a part, and what rounding to 2^-20 comes to.
    assert np.abs(counts - expected).max() <= len(weights) / 2 + items * 2.0**-18
    assert own.max() < counts.max()


def test_equal_weights_take_turns() -> None:
    part, _ = scheduled(np.arange(300), shares_of([1.0, 1.0, 1.0]))
    assert {tuple(sorted(three)) for three in part.reshape(-1, 3).tolist()} == {(0, 1, 2)}


def test_no_part_is_rounded_away() -> None:
    assert shares_of([1e-9, 1.0]) == (1, 2**20)
    assert shares_of([1.0, 1e-9]) == (2**20 - 1, 2**20)
    assert shares_of([3.0, 1.0]) == shares_of([6.0, 2.0]) == (3 * 2**18, 2**20)


@pytest.mark.parametrize("weights", [[1.0, 0.0], [-1.0, 2.0], [float("nan")], [float("inf"), 1.0]])
def test_weights_are_positive(weights: list[float]) -> None:
    with pytest.raises(UserError, match=r"weights of a mixture are .*; each must be positive"):
        shares_of(weights)


def test_tokens_of_training_have_the_shares_of_the_weights() -> None:
    rows = _rows(_text(5.0, 2.0, 1.0), seed=0, steps=100, batch=8)
    assert np.bincount(rows[:, 0] // 1000).tolist() == [500, 200, 100]
    np.testing.assert_array_equal(np.diff(rows), 1)


def test_every_window_of_a_part_comes_once_an_epoch_of_it() -> None:
    rows = _rows(_text(5.0, 2.0, 1.0), seed=3, steps=100, batch=8)
    for start, windows in zip(STARTS, (30, 7, 12), strict=True):
        places = [int(i) - start for i in rows[:, 0] if i // 1000 == start // 1000]
        epochs = [places[i : i + windows] for i in range(0, len(places) - windows + 1, windows)]
        assert len(epochs) > 7
        assert all(sorted(epoch) == list(range(0, 10 * windows, 10)) for epoch in epochs)
        assert len(set(map(tuple, epochs))) == len(epochs)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    text = _text(5.0, 2.0, 1.0)
    together = text.batch(4, 0, 60, LENGTH, RANDOM)
    np.testing.assert_array_equal(together, np.concatenate([text.batch(4, step, 6, LENGTH, RANDOM) for step in range(10)]))
    np.testing.assert_array_equal(text.batch(4, 7, 6, LENGTH, RANDOM), together[42:48])
    assert not np.array_equal(text.batch(5, 0, 60, LENGTH, RANDOM), together)


def test_parts_of_equal_size_have_orders_of_their_own() -> None:
    parts = (_files(0, 1000), _files(1000, 1000))
    rows = _rows(WeightedText(parts, ("one", "two"), shares_of([1.0, 1.0])), seed=0, steps=10, batch=20)
    one, two = (rows[rows[:, 0] // 1000 == number, 0] % 1000 for number in (0, 1))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("bos", [ABSENT, RANDOM])
def test_one_part_is_its_corpus(bos: np.ndarray) -> None:
    text = _text(0.3)
    for step in range(5):
        np.testing.assert_array_equal(
            text.batch(2, step, 7, LENGTH, bos), text_batch(text.parts[0].train, 2, step, 7, LENGTH, bos)
        )
    held_out = text.parts[0].held_out
    np.testing.assert_array_equal(text.held_out(LENGTH, 99, bos), held_out_windows(held_out, LENGTH, 99, bos))
    for stride in (None, 4):
        found, expected = text.scored(LENGTH, 99, bos, EOS, stride), held_out_text(held_out, LENGTH, 99, bos, EOS, stride)
        for name in ("windows", "counted", "documents"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert text.digest == "digest of 0"


def test_held_out_windows_have_the_shares_of_the_weights() -> None:
    rows = _text(5.0, 2.0, 1.0).held_out(LENGTH, 24 * LENGTH, ABSENT)
    assert np.bincount((rows[:, 0] - 10_000) // 1000).tolist() == [15, 6, 3]


def test_sliding_windows_slide_within_a_part() -> None:
    scored = _text(1.0, 1.0).scored(LENGTH, LENGTH + 7 * 3, ABSENT, EOS, stride=3)
    assert scored.windows.shape == (8, LENGTH + 1)
    for number in (0, 1):
        rows = scored.windows[(scored.windows[:, 0] - 10_000) // 1000 == number]
        assert rows[:, 0].tolist() == [10_000 + number * 1000 + 3 * i for i in range(4)]
    assert sorted(scored.counted.sum(1).tolist()) == [3] * 6 + [LENGTH] * 2


def test_documents_of_parts_are_not_taken_for_one() -> None:
    scored = _text(1.0, 1.0).scored(LENGTH, 8 * LENGTH, ABSENT, EOS)
    part = (scored.windows[:, 0] - 10_000) // 1000
    assert not set(scored.documents[part == 0].ravel()) & set(scored.documents[part == 1].ravel())
    assert sorted(set(scored.documents.ravel())) == [0, 1, 2, 3]


def test_too_little_held_out_text_names_the_part() -> None:
    with pytest.raises(UserError, match=r"two, a part of the mixture: 8 held-out windows of 9 need 80 tokens"):
        _text(1.0, 1.0).held_out(LENGTH, 16 * LENGTH, ABSENT)
    with pytest.raises(UserError, match="8 tokens to measure on are less than one window of 9"):
        _text(1.0, 1.0).held_out(LENGTH, 8, ABSENT)


def test_the_digest_is_of_parts_and_shares() -> None:
    assert _text(3.0, 1.0).digest == _text(6.0, 2.0).digest
    assert len({_text(*weights).digest for weights in ((3.0, 1.0), (1.0, 1.0), (3.0, 1.0, 1.0), (3.0,))}) == 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for name in ("lower", "upper"):
        (folder / name).mkdir()
        for i in range(40):
            text = f"document {i}, with its number three times: {i} {i} {i}"
            (folder / name / f"{i}.txt").write_text(text.upper() if name == "upper" else text)
    return folder


def _data(*parts: tuple[str, float]) -> TextData:
    mixture = Mixture(parts=tuple(MixturePart(corpus=(corpus,), weight=weight) for corpus, weight in parts))
    return TextData(corpus=mixture, length=16, held_out=0.3)


def test_a_source_deals_rows_by_weight(folder: Path) -> None:
    source = open_source(_data((f"{folder}/lower", 3.0), (f"{folder}/upper", 1.0)), folder / "cache")
    assert isinstance(source, TextSource)
    for rows in (source.inputs(0, 5, 40), source.held_out(16, 40 * 16)):
        assert sum(bytes(row[row < 256].astype(np.uint8)).isupper() for row in rows) == 10
    assert source.described["name"]["parts"][1] == {"corpus": [f"{folder}/upper"], "weight": 1.0}
    assert source.described["train_tokens"] == sum(len(part.train) for part in source.text.parts)


def test_a_mixture_of_one_is_its_corpus(folder: Path) -> None:
    mixture, alone = (
        open_source(data, folder / "cache")
        for data in (_data((f"{folder}/lower", 2.0)), TextData(corpus=(f"{folder}/lower",), length=16, held_out=0.3))
    )
    assert mixture.described["digest"] == alone.described["digest"]


def test_a_part_that_is_missing_or_empty_is_named(folder: Path, tmp_path: Path) -> None:
    for corpus, complaint in (
        (f"{folder}/nowhere", "no such file or folder"),
        (str(tmp_path), "no text in this folder"),
    ):
        with pytest.raises(UserError, match=rf"\['{corpus}'\], a part of the mixture: {corpus}: {complaint}"):
            open_source(_data((f"{folder}/lower", 1.0), (corpus, 1.0)), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_part_that_is_too_short_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    with pytest.raises(UserError, match=r"short\.txt'\], a part of the mixture: data\.length = 16"):
        open_source(_data((f"{folder}/lower", 1.0), (f"{tmp_path}/short.txt", 1.0)), tmp_path / "cache")
