"""Applying merges, all of them or the first, each time or not; tests/tokenization/test_examples.py has texts worked by hand."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.tokenization.bpe.merging import apply_merges
from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")
BOTH = pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
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


@pytest.mark.parametrize(("symbols", "dropped", "expected"), [([0, 1, 2], [1, 0], [4, 2]), ([1, 2, 0, 1], [1, 0, 0], [3, 4])])
def test_what_is_dropped_waits_for_the_next_merge(symbols: list[int], dropped: list[int], expected: list[int]) -> None:
    """Of 1, 2 and 0, 1 the first is left out once, so the other is made, after which it may be there no more."""
    answers = iter(dropped)
    assert apply_merges(symbols, {(1, 2): (0, 3), (0, 1): (1, 4)}.get, lambda: bool(next(answers))) == expected


def test_the_work_grows_with_the_length() -> None:
    """Each pair is ranked once at first, and each merge ranks itself and two new neighbours."""
    ranked: list[tuple[int, int]] = []

    def rank_of(pair: tuple[int, int]) -> tuple[int, int] | None:
        ranked.append(pair)
        return (pair[0], pair[0] + 1) if pair[0] == pair[1] else None

    assert apply_merges([0] * 2**12, rank_of) == [12]
    assert len(ranked) < 5 * 2**12


def test_a_shorter_vocabulary_is_that_of_a_shorter_training() -> None:
    assert BYTES.shortened(270) == train_bpe(CORPUS, 270)
    assert CHARACTERS.shortened(50) == train_bpe(CORPUS, 50, unit="characters", pattern="words")
    for size in (258, 301):
        with pytest.raises(ValueError, match=f"259 to 300 ids, not {size}"):
            BYTES.shortened(size)


@BOTH
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_dropping_none_is_encoding_and_dropping_all_leaves_the_alphabet(tokenizer: BpeTokenizer, rate: float) -> None:
    merged = tokenizer if rate == 0.0 else replace(tokenizer, merges=())
    dropped = tokenizer.encode_dropped(CORPUS[0], rate, np.random.default_rng(0))
    assert dropped.tolist() == merged.encode(CORPUS[0]).tolist()


def test_dropping_some_cuts_equal_words_differently() -> None:
    """Each time the text comes back, one generator gives the same ids, and equal words many rows."""
    rows = [BYTES.encode_dropped("lowest lowest lowest" * 9, 0.5, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)]
    assert {BYTES.decode(row) for row in rows} == {b"lowest lowest lowest" * 9}
    assert rows[0] == rows[1] != rows[2]
    assert len({tuple(rows[0][at : at + 3]) for at in range(len(rows[0]))}) > 20


def test_one_merge_is_dropped_at_the_rate() -> None:
    """The merge 259, of words of two letters, a thousand times: made 750 times, within 5 deviations of 5 sqrt(1000 · 3/16)."""
    tokenizer = BpeTokenizer(((5, 6),), pattern="..")
    ids = tokenizer.encode_dropped(tokenizer.token_bytes(259) * 1000, 0.25, np.random.default_rng(0))
    assert abs((ids == 259).sum() - 750) < 68


def segmentations(word: list[int], rate: float) -> dict[tuple[int, ...], float]:
    """The probability of each row of ids by Provilkov et al. 2020, algorithm 1: each merge that applies is left out or not."""
    merges = sorted(
        (BYTES.ranks[pair][0], at, BYTES.ranks[pair][1]) for at, pair in enumerate(pairwise(word)) if pair in BYTES.ranks
    )
    shares = defaultdict[tuple[int, ...], float](float, {tuple(word): rate ** len(merges)})
    for before, (_, at, merged) in enumerate(merges):
        for row, share in segmentations([*word[:at], merged, *word[at + 2 :]], rate).items():
            shares[row] += rate**before * (1 - rate) * share
    return shares


def test_words_have_the_probabilities_of_all_ways_to_drop() -> None:
    """A fair sample of 3000 has p below 1e-3 in one of 1000 seeds."""
    draws, text = 3000, " lowest"
    expected = segmentations([BYTES.encode(character)[0] for character in text], 0.3)
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 10
    generator = np.random.default_rng(0)
    drawn = Counter(tuple(BYTES.encode_dropped(text, 0.3, generator).tolist()) for _ in range(draws))
    assert drawn.keys() <= expected.keys()
    common = [row for row, share in expected.items() if share * draws > 5]
    observed, wanted = [drawn[row] for row in common], [expected[row] * draws for row in common]
    rest = draws - sum(observed), draws - sum(wanted)
    assert chisquare([*observed, rest[0]], [*wanted, rest[1]]).pvalue > 1e-3


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_that_is_no_probability(rate: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        BYTES.encode_dropped("a", rate, np.random.default_rng(0))
