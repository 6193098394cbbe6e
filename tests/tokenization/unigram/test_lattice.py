"""All segmentations of a string, against a list of them."""

from collections.abc import Iterator
from math import exp, isclose, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.tokenization.unigram.lattice import Pieces, forward, lattice, n_best, ranked, sample, viterbi

SCORES = {"a": -1.0, "b": -1.5, "ab": -2.25, "ba": -2.0, "abb": -2.75, "bab": -3.5}
PIECES = Pieces({piece: (4 + i, score) for i, (piece, score) in enumerate(SCORES.items())}, 3, (1, -13.5))


def every(text: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """All segmentations of a text with their log probabilities; a character that is no piece costs 13.5 nats."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        if end == 1 or text[:end] in SCORES:
            for rest, score in every(text[end:]):
                yield (text[:end], *rest), SCORES.get(text[:end], -13.5) + score


TEXTS = st.text("ab?", max_size=9)


@settings(max_examples=50)
@given(TEXTS)
def test_the_best(text: str) -> None:
    path = viterbi(text, PIECES)
    assert "".join(text[arc.start : arc.end] for arc in path) == text
    assert isclose(sum(arc.score for arc in path), max(score for _, score in every(text)), abs_tol=1e-9)


@settings(max_examples=50)
@given(TEXTS)
def test_all_in_their_order(text: str) -> None:
    paths = [(tuple(text[arc.start : arc.end] for arc in path), score) for path, score in ranked(lattice([text], PIECES))]
    expected = dict(every(text))
    assert {pieces for pieces, _ in paths} == expected.keys()
    assert len(paths) == len(expected)
    np.testing.assert_allclose([score for _, score in paths], sorted(expected.values(), reverse=True))
    np.testing.assert_allclose([score for _, score in paths], [expected[pieces] for pieces, _ in paths])


@settings(max_examples=50)
@given(TEXTS, st.floats(0, 3))
def test_the_sum(text: str, alpha: float) -> None:
    expected = log(sum(exp(alpha * score) for _, score in every(text)))
    assert isclose(forward(lattice([text], PIECES), alpha)[-1], expected, abs_tol=1e-9)


def test_the_first_of_equals_has_the_longest_last_piece() -> None:
    pieces = Pieces({"a": (4, -1.0), "aa": (5, -1.0)}, 2, (1, -11.0))
    assert [arc.token for arc in viterbi("aaa", pieces)] == [4, 5]


def test_no_piece_crosses_words() -> None:
    joined = lattice(["ab", "ab"], PIECES)
    assert [[arc.start for arc in ending] for ending in joined] == [[], [0], [0, 1], [2], [2, 3]]


def test_fewer_segmentations_than_asked_for() -> None:
    assert len(n_best(lattice(["ab"], PIECES), 10)) == 2


def test_nothing_has_one_segmentation() -> None:
    empty = lattice([], PIECES)
    assert n_best(empty, 3) == [([], 0.0)]
    assert viterbi("", PIECES) == sample(empty, forward(empty), 1.0, np.random.default_rng(0)) == []
    assert forward(empty)[-1] == 0


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_samples_have_their_probabilities(alpha: float) -> None:
    """abbab has 10 segmentations; a fair sample of 2000 has p below 1e-3 in one of 1000 seeds."""
    text, draws = "abbab", 2000
    weights = {pieces: exp(alpha * score) for pieces, score in every(text)}
    arcs, generator = lattice([text], PIECES), np.random.default_rng(1)
    sums = forward(arcs, alpha)
    paths = [sample(arcs, sums, alpha, generator) for _ in range(draws)]
    drawn = [tuple(text[arc.start : arc.end] for arc in path) for path in paths]
    expected = np.array(list(weights.values())) / sum(weights.values()) * draws
    assert chisquare([drawn.count(pieces) for pieces in weights], expected).pvalue > 1e-3
