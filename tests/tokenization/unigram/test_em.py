"""Expectation maximization, against lists of all segmentations."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.unigram.em import Maximization, expectation, lattices, log_sums, maximization, removal_losses

PIECES = ["a", "b", "bab", "aa", "ab", "ba"]
SCORES = np.log([0.3, 0.25, 0.05, 0.1, 0.2, 0.1])


def every(text: str) -> Iterator[tuple[str, ...]]:
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        if text[:end] in PIECES:
            yield from ((text[:end], *rest) for rest in every(text[end:]))


def probability(segmentation: tuple[str, ...]) -> float:
    return exp(sum(SCORES[PIECES.index(piece)] for piece in segmentation))


WORDS = st.dictionaries(st.text("ab", min_size=1, max_size=7), st.integers(1, 5), min_size=1, max_size=6)


@settings(max_examples=40)
@given(WORDS)
def test_expected_counts_and_likelihood(counts: dict[str, int]) -> None:
    words = sorted(counts, key=lambda word: (-len(word), word))
    expected, likelihood = Counter(), 0.0
    for word, count in counts.items():
        whole = sum(probability(segmentation) for segmentation in every(word))
        likelihood += count * log(whole)
        for segmentation in every(word):
            share = count * probability(segmentation) / whole
            expected.update({piece: n * share for piece, n in Counter(segmentation).items()})
    arcs = lattices(words, {piece: i for i, piece in enumerate(PIECES)}, 3)
    computed, log_likelihood = expectation(arcs, np.array([counts[word] for word in words], np.float64), SCORES)
    np.testing.assert_allclose(computed, [expected[piece] for piece in PIECES], atol=1e-12)
    assert log_likelihood == pytest.approx(likelihood)


def test_pieces_that_go_take_their_arcs_along() -> None:
    kept = np.array([True, True, False, False, True, True])
    left = {piece: i for i, piece in enumerate(piece for piece, stays in zip(PIECES, kept.tolist(), strict=True) if stays)}
    words = ["babaa", "bab", "a"]
    restricted = lattices(words, {piece: i for i, piece in enumerate(PIECES)}, 3).restrict(kept)
    expected = lattices(words, left, 3)
    for name in ("begin", "end", "piece", "levels", "ends"):
        np.testing.assert_array_equal(getattr(restricted, name), getattr(expected, name))


@settings(max_examples=40)
@given(WORDS)
def test_the_likelihood_never_falls(counts: dict[str, int]) -> None:
    words = sorted(counts, key=lambda word: (-len(word), word))
    arcs = lattices(words, {piece: i for i, piece in enumerate(PIECES)}, 3)
    weights, scores, likelihoods = np.array([counts[word] for word in words], np.float64), SCORES, []
    for _ in range(6):
        expected, log_likelihood = expectation(arcs, weights, scores)
        scores = maximization(expected, "likelihood")
        likelihoods.append(log_likelihood)
    assert all(later >= earlier - 1e-9 * abs(earlier) for earlier, later in pairwise(likelihoods))


def test_the_loss_of_a_piece() -> None:
    """bab is spelled otherwise as b a b, b ab and ba b; ab as a b."""
    of_pieces = lattices(PIECES[2:], {piece: i for i, piece in enumerate(PIECES)}, 3)
    counts = np.array([9.0, 8, 7, 6, 5, 4])
    losses = removal_losses(of_pieces, counts, SCORES)
    rest = [0.25 * 0.3 * 0.25 + 0.25 * 0.2 + 0.1 * 0.25, 0.3 * 0.3, 0.3 * 0.25, 0.25 * 0.3]
    np.testing.assert_allclose(losses, counts[2:] * (SCORES[2:] - np.log(rest)))


@pytest.mark.parametrize(
    ("kind", "expected"), [("likelihood", [log(1 / 4), log(3 / 4)]), ("digamma", [-(1 + 1 / 2 + 1 / 3), -1 / 3])]
)
def test_the_m_step(kind: Maximization, expected: list[float]) -> None:
    """ψ(n) - ψ(m) is the sum of 1/k from m to n - 1."""
    np.testing.assert_allclose(maximization(np.array([1.0, 3.0]), kind), expected)


def test_what_a_piece_counts_for_at_least() -> None:
    np.testing.assert_allclose(np.exp(maximization(np.array([0.0, 1.5]), "likelihood", 0.5)), [0.25, 0.75])
    assert np.isfinite(maximization(np.array([0.0, 1.0]), "likelihood")).all()


def test_very_unlikely_words_do_not_underflow() -> None:
    arcs = lattices(["a" * 500], {"a": 0}, 1)
    assert log_sums(arcs, np.full(500, -50.0))[-1] == -25_000
