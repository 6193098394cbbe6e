"""Applying merges, all of them or the first; tests/tokenization/test_examples.py has texts worked by hand."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadline.tokenization.bpe.merging import apply_merges
from leadline.tokenization.bpe.tokenizer import train_bpe

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")
MERGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=8)


@given(st.lists(st.integers(0, 2), max_size=20), MERGES)
@example([0, 1, 2, 0], [(2, 0), (1, 2), (0, 1), (1, 3)])  # 1 waits to merge with 2, which becomes 3 before its turn
def test_equal_to_searching_the_whole_row_each_time(symbols: list[int], pairs: list[tuple[int, int]]) -> None:
    ranks = {pair: (rank, rank + 3) for rank, pair in enumerate(pairs)}
    row = list(symbols)
    while candidates := [(ranks[pair], at) for at, pair in enumerate(pairwise(row)) if pair in ranks]:
        (_, new), at = min(candidates)
        row[at : at + 2] = [new]
    assert apply_merges(symbols, ranks.get) == row


def test_the_work_grows_with_the_length() -> None:
    """Each pair is ranked once at first, and each merge ranks itself and two new neighbours."""
    asked: list[tuple[int, int]] = []

    def rank_of(pair: tuple[int, int]) -> tuple[int, int] | None:
        asked.append(pair)
        return (pair[0], pair[0] + 1) if pair[0] == pair[1] else None

    assert apply_merges([0] * 2**12, rank_of) == [12]
    assert len(asked) < 5 * 2**12


def test_white_space_between_words_becomes_a_space() -> None:
    assert CHARACTERS.decode(CHARACTERS.encode(" low,\n\tlowest ")) == b"low , lowest"


def test_a_shorter_vocabulary_is_that_of_a_shorter_training() -> None:
    assert BYTES.shortened(270) == train_bpe(CORPUS, 270)
    assert CHARACTERS.shortened(50) == train_bpe(CORPUS, 50, unit="characters", pattern="words")
    for size in (258, 301):
        with pytest.raises(ValueError, match=f"259 to 300 ids, not {size}"):
            BYTES.shortened(size)
