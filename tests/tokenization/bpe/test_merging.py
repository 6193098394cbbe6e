"""Merging the symbols of one piece."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leadline.tokenization.bpe.merging import apply_merges

# a 0, b 1, c 2, and what three merges make.
RANKS = {(1, 2): (0, 3), (0, 1): (1, 4), (0, 0): (2, 5)}


def test_the_earliest_merge_of_the_list_comes_first() -> None:
    assert apply_merges([0, 1, 2], RANKS.get) == [0, 3]
    assert apply_merges([0, 1, 0], RANKS.get) == [4, 0]


def test_equal_merges_go_from_the_left() -> None:
    assert apply_merges([0, 0, 0], RANKS.get) == [5, 0]


def test_short_pieces_stay() -> None:
    assert apply_merges([], RANKS.get) == []
    assert apply_merges([2], RANKS.get) == [2]


MERGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=8)


@given(st.lists(st.integers(0, 2), max_size=20), MERGES)
def test_equal_to_searching_the_whole_row_each_time(symbols: list[int], pairs: list[tuple[int, int]]) -> None:
    ranks = {pair: (rank, rank + 3) for rank, pair in enumerate(pairs)}
    row = list(symbols)
    while candidates := [(ranks[pair], at) for at, pair in enumerate(pairwise(row)) if pair in ranks]:
        (_, new), at = min(candidates)
        row[at : at + 2] = [new]
    assert apply_merges(symbols, ranks.get) == row


def test_what_is_dropped_waits_for_the_next_apply_merges() -> None:
    """bc is left out once, so ab is made, and bc is no longer there."""
    answers = iter([True, False])
    assert apply_merges([0, 1, 2], RANKS.get, lambda: next(answers)) == [4, 2]
    answers = iter([True, False, False])
    assert apply_merges([1, 2, 0, 1], RANKS.get, lambda: next(answers)) == [3, 4]


def test_the_work_grows_with_the_length() -> None:
    """Each pair is ranked once at first, and each merge ranks itself and two new neighbours."""
    ranks = {(i, i): (i, i + 1) for i in range(14)}
    calls = 0

    def counted(pair: tuple[int, int]) -> tuple[int, int] | None:
        nonlocal calls
        calls += 1
        return ranks.get(pair)

    n = 2**14
    assert apply_merges([0] * n, counted) == [14]
    assert calls < 5 * n
