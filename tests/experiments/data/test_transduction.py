"""Transductions against plain Python: strings, English numerals, and how both are framed in rows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import PADDING, TransductionData
from leadline.experiments.data.transduction import (
    BEGIN,
    END,
    FIRST,
    NAMES,
    TransductionSource,
    in_words,
    rows,
    source_ids,
    text_of,
    vocabulary_size,
)
from leadline.experiments.runtime.errors import UserError

pytestmark = pytest.mark.usefixtures("in_use")
STRING = {"copy": list, "reverse": lambda ids: ids[::-1], "sort": sorted}
draw = jax.jit(rows, static_argnames=("data", "batch", "size"))

BELOW_TWENTY = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
DECADES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def spelled(number: int) -> list[str]:
    """The words of a number, by division."""
    for unit, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= unit:
            return [*spelled(number // unit), name, *(spelled(number % unit) if number % unit else [])]
    if number >= 20:
        return [DECADES[number // 10 - 2], *(spelled(number % 10) if number % 10 else [])]
    return [BELOW_TWENTY[number - 1] if number else "zero"]


def halves(data: TransductionData, size: int | None = None) -> list[tuple[list[int], list[int]]]:
    """Source and target of each row, without their frame, after a look at the frame and the weights."""
    sample = jax.device_get(draw(jax.random.key(3), data, 300, size))
    width, pairs = data.half(max(size or 0, data.size)), []
    assert sample.tokens.shape == (300, 2 * width + 1)
    for row, weights in zip(np.asarray(sample.tokens), np.asarray(sample.weights), strict=True):
        parts = []
        for half in (row[:width], row[width:]):
            end = list(half).index(END)
            assert half[0] == BEGIN
            assert (half[end + 1 :] == PADDING).all()
            assert (half[1:end] >= FIRST).all()
            parts.append(half[1:end].tolist())
        counted = np.arange(2 * width)[weights > 0] + 1  # places of the targets in the row
        np.testing.assert_array_equal(counted, width + 1 + np.arange(len(parts[1]) + 1))
        pairs.append((parts[0], parts[1]))
    return pairs


@pytest.mark.parametrize("task", STRING)
@pytest.mark.parametrize("size", [None, 4, 9])
def test_strings_become_what_their_task_says(task: str, size: int | None) -> None:
    pairs = halves(TransductionData(task=task, size=6, symbols=5), size)  # pyright: ignore[reportArgumentType]
    for source, target in pairs:
        assert target == STRING[task](source)
    assert {len(source) for source, _ in pairs} == ({1, 2, 3, 4, 5, 6} if size is None else {size})
    assert {symbol for source, _ in pairs for symbol in source} == set(range(FIRST, FIRST + 5))


@pytest.mark.parametrize("size", range(1, 10))
def test_words_become_digits(size: int) -> None:
    longest = 0
    for source, target in halves(TransductionData(task="numbers", size=9), size):
        digits = [NAMES[token - FIRST] for token in target]
        assert len(digits) == size
        assert digits[0] != "0" or size == 1
        assert [NAMES[token - FIRST] for token in source] == spelled(int("".join(digits)))
        longest = max(longest, len(source), len(digits))
    assert TransductionData(task="numbers", size=size).half(size) >= longest + 2


def test_sources_are_written_as_their_names() -> None:
    numbers, strings = TransductionData(task="numbers", size=9), TransductionData(task="copy", size=3, symbols=12)
    for number in (0, 7, 19, 21, 100, 1_000_013):
        ids = source_ids(" ".join(spelled(number)), numbers)
        assert ids == [token for token in np.asarray(in_words(jnp.asarray([[int(c) for c in f"{number:09}"]])))[0] if token]
        assert text_of([BEGIN, *ids, END, PADDING], numbers).split() == spelled(number)
    assert source_ids(" 11  0 ", strings) == [FIRST + 11, FIRST]
    with pytest.raises(UserError, match=r"'twenti' is in no source of the task 'numbers'; did you mean 'twenty'\?"):
        source_ids("twenti one", numbers)
    with pytest.raises(UserError, match="'7' is in no source"):
        source_ids("7", numbers)


def test_every_number_up_to_ten_thousand_and_round_ones_are_spelled() -> None:
    numbers = [*range(10_000), 10_000, 12_034, 100_000, 700_015, 999_999, 1_000_000, 20_000_300, 123_456_789]
    digits = jnp.asarray([[int(digit) for digit in f"{number:09d}"] for number in numbers])
    for number, words in zip(numbers, np.asarray(jax.jit(in_words)(digits)), strict=True):
        assert [NAMES[token - FIRST] for token in words if token != PADDING] == spelled(number)


def test_numbers_of_a_size_are_uniform() -> None:
    data = TransductionData(task="numbers", size=2)
    sample = draw(jax.random.key(0), data, 9000, 2)
    tokens = np.asarray(sample.tokens)[:, data.half(2) + 1 :] - FIRST
    counts = np.bincount(10 * tokens[:, 0] + tokens[:, 1], minlength=100)
    assert not counts[:10].any()
    assert (np.abs(counts[10:] - 100) < 50).all()


def test_a_source_knows_its_ids_and_holds_out_rows_of_every_size() -> None:
    data = TransductionData(task="numbers", size=3)
    source = TransductionSource(data)
    assert source.vocabulary == vocabulary_size(data) == FIRST + 10 + 20 + 8 + 3
    of_size = partial(source.held_out, 8)
    np.testing.assert_array_equal(of_size(5).tokens, of_size(5).tokens)
    assert not np.array_equal(of_size(2).tokens, of_size(3).tokens)
