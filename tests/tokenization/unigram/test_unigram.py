"""Unigram models against lists of all segmentations: the best, all and sampled ones, expectation maximization, and the rounds.

tests/tokenization/test_examples.py has segmentations by hand.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, isclose, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.tokenization.unigram.em import Maximization, expectation, lattices, log_sums, maximization, removal_losses
from leadline.tokenization.unigram.lattice import Pieces, forward, lattice, ranked, sample, viterbi
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram, training_rounds
from tests.refused import refused

KNOWN = {"a": -1.0, "b": -1.5, "bab": -3.5, "aa": -2.5, "ab": -2.25, "ba": -2.0}
NAMES, SCORES = list(KNOWN), np.array(list(KNOWN.values()))
UNKNOWN = -13.5
PIECES = Pieces({piece: (4 + i, score) for i, (piece, score) in enumerate(KNOWN.items())}, 3, (1, UNKNOWN))
TEXTS = ["the cat sat on the mat, the dog sat on the log", "a cat and a dog and another cat", "that mat, that log, the others"]
COUNTS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
WORDS = st.dictionaries(st.text("ab", min_size=1, max_size=7), st.integers(1, 5), min_size=1, max_size=6)


def every(text: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """All segmentations of a text with their log probabilities; a character that is no piece costs 13.5 nats."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        if end == 1 or text[:end] in KNOWN:
            for rest, score in every(text[end:]):
                yield (text[:end], *rest), KNOWN.get(text[:end], UNKNOWN) + score


def small(**fields) -> UnigramTokenizer:
    """▁ 4, ▁a, a, b, ab 8; any other character has -3.5 - 10 nats."""
    scores = {"▁": -3.0, "▁a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5}
    return UnigramTokenizer(tuple(scores), tuple(scores.values()), escape=True, dummy_prefix=True, **fields)


@settings(max_examples=50)
@given(st.text("ab?", max_size=9), st.floats(0, 3))
def test_the_best_all_in_their_order_and_their_sum(text: str, alpha: float) -> None:
    expected = dict(every(text))
    path, arcs = viterbi(text, PIECES), lattice([text], PIECES)
    assert "".join(text[arc.start : arc.end] for arc in path) == text
    assert isclose(sum(arc.score for arc in path), max(expected.values()), abs_tol=1e-9)
    whole = log(sum(exp(alpha * score) for score in expected.values()))
    assert isclose(forward(arcs, alpha)[-1], whole, abs_tol=1e-9)
    paths = [(tuple(text[arc.start : arc.end] for arc in path), score) for path, score in ranked(arcs)]
    assert sorted(pieces for pieces, _ in paths) == sorted(expected)
    np.testing.assert_allclose([score for _, score in paths], sorted(expected.values(), reverse=True))
    np.testing.assert_allclose([score for _, score in paths], [expected[pieces] for pieces, _ in paths])


@pytest.mark.parametrize(
    "fields", [{"escape": True}, {"byte_fallback": False}, {"pattern": "words"}, {"normalization": ("nfc",)}]
)
def test_what_loses_text(fields: dict) -> None:
    assert not replace(UnigramTokenizer(("a",), (-1.0,), byte_fallback=True), **fields).lossless


def test_log_likelihood_is_the_sum_over_segmentations_and_log_probability_that_of_one() -> None:
    assert small().log_likelihood("ab") == pytest.approx(log(exp(-4.5) + exp(-6.5) + exp(-7)))
    assert small(pattern=" ?a|b").log_likelihood("ab") == pytest.approx(log(exp(-2) + exp(-4.5)) - 2.5)
    assert small().log_likelihood("") == 0
    assert small().log_probability(["▁a", "b", "?"]) == -2.0 - 2.5 + UNKNOWN


def test_the_best_and_the_second_best() -> None:
    best = small().n_best("ab?", 5)
    assert [ids.tolist() for ids, _ in best] == [[5, 7, 1], [4, 8, 1], [4, 6, 7, 1]]
    np.testing.assert_allclose([score for _, score in best], [-4.5 + UNKNOWN, -6.5 + UNKNOWN, -7 + UNKNOWN])
    cut = small(pattern=r"\?|[^?]+")
    assert cut.n_best("a??b", 1)[0][0].tolist() == cut.encode("a??b").tolist() == [5, 1, 1, 7]
    assert [ids.tolist() for ids, _ in small().n_best("", 2)] == [[]]


def test_samples_depend_on_the_generator_alone() -> None:
    rows, same, others = (
        [small(pattern="gpt2").sample("ab ab?", np.random.default_rng([seed, i]), 0.1).tolist() for i in range(20)]
        for seed in (1, 1, 2)
    )
    assert rows == same != others
    assert {small().decode(ids) for ids in rows} == {b"ab ab"}
    best = small().sample("abab", np.random.default_rng(0), 1e4)
    assert best.tolist() == small().encode("abab").tolist()
    assert small().sample("", np.random.default_rng(0)).shape == (0,)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_samples_have_their_probabilities(alpha: float) -> None:
    """A fair sample of 2000 has p below 1e-3 in one of 1000 seeds."""
    text, draws = "abbab", 2000
    weights = {pieces: exp(alpha * score) for pieces, score in every(text)}
    arcs, generator = lattice([text], PIECES), np.random.default_rng(1)
    sums = forward(arcs, alpha)
    paths = [sample(arcs, sums, alpha, generator) for _ in range(draws)]
    drawn = [tuple(text[arc.start : arc.end] for arc in path) for path in paths]
    expected = np.array(list(weights.values())) / sum(weights.values()) * draws
    assert chisquare([drawn.count(pieces) for pieces in weights], expected).pvalue > 1e-3


def lattices_of(words: Sequence[str], pieces: Sequence[str] = NAMES):
    return lattices(words, {piece: i for i, piece in enumerate(pieces)}, 3)


@settings(max_examples=40)
@given(WORDS)
def test_expected_counts_and_likelihood(counts: dict[str, int]) -> None:
    """Of all segmentations; and six steps of EM never lower the likelihood."""
    words = sorted(counts, key=lambda word: (-len(word), word))
    arcs, weights = lattices_of(words), np.array([counts[word] for word in words], np.float64)
    expected, likelihood = Counter(), 0.0
    for word, count in counts.items():
        whole = sum(exp(score) for _, score in every(word))
        likelihood += count * log(whole)
        for segmentation, score in every(word):
            expected.update({piece: n * count * exp(score) / whole for piece, n in Counter(segmentation).items()})
    computed, log_likelihood = expectation(arcs, weights, SCORES)
    np.testing.assert_allclose(computed, [expected[piece] for piece in NAMES], atol=1e-12)
    assert log_likelihood == pytest.approx(likelihood)
    for _ in range(6):
        computed, later = expectation(arcs, weights, maximization(computed, "likelihood"))
        assert later >= log_likelihood - 1e-9 * abs(log_likelihood)
        log_likelihood = later


def test_pieces_that_go_take_their_arcs_along() -> None:
    words, kept = ["babaa", "bab", "a"], np.array([True, True, False, False, True, True])
    restricted, expected = lattices_of(words).restrict(kept), lattices_of(words, ["a", "b", "ab", "ba"])
    for name in ("begin", "end", "piece", "levels", "ends"):
        np.testing.assert_array_equal(getattr(restricted, name), getattr(expected, name))


def test_the_loss_of_a_piece_is_that_of_spelling_it_otherwise() -> None:
    counts = np.array([9.0, 8, 7, 6, 5, 4])
    losses = removal_losses(lattices_of(NAMES[2:]), counts, SCORES)
    rest = [log(sum(exp(score) for pieces, score in every(name) if pieces != (name,))) for name in NAMES[2:]]
    np.testing.assert_allclose(losses, counts[2:] * (SCORES[2:] - rest))


@pytest.mark.parametrize(
    ("kind", "expected"), [("likelihood", [log(1 / 4), log(3 / 4)]), ("digamma", [-(1 + 1 / 2 + 1 / 3), -1 / 3])]
)
def test_the_m_step(kind: Maximization, expected: list[float]) -> None:
    """ψ(n) - ψ(m) is the sum of 1/k from m to n - 1."""
    np.testing.assert_allclose(maximization(np.array([1.0, 3.0]), kind), expected)


def test_nothing_underflows() -> None:
    np.testing.assert_allclose(np.exp(maximization(np.array([0.0, 1.5]), "likelihood", 0.5)), [0.25, 0.75])
    assert np.isfinite(maximization(np.array([0.0, 1.0]), "likelihood")).all()
    assert log_sums(lattices(["a" * 500], {"a": 0}, 1), np.full(500, -50.0))[-1] == -25_000


def test_characters_stay_and_others_go_by_rounds() -> None:
    rounds = list(training_rounds(COUNTS, 9, seed_size=30))
    assert [len(step.pieces) for step in rounds] == [19, 14, 10, 9]
    assert all(set("hugpnbs") <= set(step.pieces) for step in rounds)
    assert all(set(later.pieces) <= set(earlier.pieces) for earlier, later in pairwise(rounds))
    assert {piece for piece in list(training_rounds(COUNTS, 10, 30))[-1].pieces if len(piece) > 1} == {"hug", "pug", "pun"}


def test_probabilities_descend() -> None:
    tokenizer = train_unigram(TEXTS, 40)
    assert list(tokenizer.scores) == sorted(tokenizer.scores, reverse=True)


def test_pieces_are_written_as_sentencepiece_does() -> None:
    tokenizer = train_unigram(TEXTS, 60, escape=True, dummy_prefix=True, normalization=["lower"])
    assert "▁the" in tokenizer.pieces
    assert not any(" " in piece for piece in tokenizer.pieces)
    assert tokenizer.decode(tokenizer.encode("The cat")) == b"the cat"


def test_pieces_are_as_long_and_as_many_as_there_are() -> None:
    """A very long word is cut, or a pass over 200,000 characters would be as many operations on arrays of one entry."""
    assert train_unigram(["ab ab"], 1000, pattern="whitespace").pieces == ("ab", "a", "b")
    assert set(train_unigram(["a" * 200_000], 100).pieces) == {"a" * n for n in range(1, 17)}


test_what_is_out_of_range_is_refused = refused(
    (lambda: small().log_probability(["ba"]), "'ba' is not a piece"),
    (lambda: small().n_best("", 0), "n is 0"),
    *((lambda a=alpha: small().sample("a", np.random.default_rng(0), a), "alpha is") for alpha in (-0.1, inf, nan)),
    (lambda: train_unigram([""], 100), "no word to train on"),
)
