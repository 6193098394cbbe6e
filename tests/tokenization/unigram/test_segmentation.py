"""All segmentations of a string, against a list of them; tests/tokenization/test_examples.py has the best ones by hand."""

from collections.abc import Iterator
from dataclasses import replace
from math import exp, inf, isclose, log, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.tokenization.unigram.lattice import Pieces, forward, lattice, ranked, sample, viterbi
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer

SCORES = {"a": -1.0, "b": -1.5, "ab": -2.25, "ba": -2.0, "abb": -2.75, "bab": -3.5}
PIECES = Pieces({piece: (4 + i, score) for i, (piece, score) in enumerate(SCORES.items())}, 3, (1, -13.5))
TEXTS = st.text("ab?", max_size=9)


def small(**fields) -> UnigramTokenizer:
    """▁ 4, ▁a, a, b, ab 8; any other character has -3.5 - 10 nats."""
    scores = {"▁": -3.0, "▁a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5}
    return UnigramTokenizer(tuple(scores), tuple(scores.values()), escape=True, dummy_prefix=True, **fields)


def every(text: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """All segmentations of a text with their log probabilities; a character that is no piece costs 13.5 nats."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        if end == 1 or text[:end] in SCORES:
            for rest, score in every(text[end:]):
                yield (text[:end], *rest), SCORES.get(text[:end], -13.5) + score


@settings(max_examples=50)
@given(TEXTS, st.floats(0, 3))
def test_the_best_and_the_sum(text: str, alpha: float) -> None:
    path = viterbi(text, PIECES)
    assert "".join(text[arc.start : arc.end] for arc in path) == text
    assert isclose(sum(arc.score for arc in path), max(score for _, score in every(text)), abs_tol=1e-9)
    expected = log(sum(exp(alpha * score) for _, score in every(text)))
    assert isclose(forward(lattice([text], PIECES), alpha)[-1], expected, abs_tol=1e-9)


def test_the_first_of_equals_has_the_longest_last_piece() -> None:
    pieces = Pieces({"a": (4, -1.0), "aa": (5, -1.0)}, 2, (1, -11.0))
    assert [arc.token for arc in viterbi("aaa", pieces)] == [4, 5]


def test_no_piece_crosses_words() -> None:
    joined = lattice(["ab", "ab"], PIECES)
    assert [[arc.start for arc in ending] for ending in joined] == [[], [0], [0, 1], [2], [2, 3]]


@pytest.mark.parametrize(
    "fields", [{"escape": True}, {"byte_fallback": False}, {"pattern": "words"}, {"normalization": ("nfc",)}]
)
def test_what_loses_text(fields: dict) -> None:
    assert not replace(UnigramTokenizer(("a",), (-1.0,), byte_fallback=True), **fields).lossless


def test_log_likelihood_is_the_sum_over_segmentations() -> None:
    assert small().log_likelihood("ab") == pytest.approx(log(exp(-4.5) + exp(-6.5) + exp(-7)))
    assert small(pattern=" ?a|b").log_likelihood("ab") == pytest.approx(log(exp(-2) + exp(-4.5)) - 2.5)
    assert small().log_likelihood("") == 0


@settings(max_examples=50)
@given(TEXTS)
def test_all_in_their_order(text: str) -> None:
    paths = [(tuple(text[arc.start : arc.end] for arc in path), score) for path, score in ranked(lattice([text], PIECES))]
    expected = dict(every(text))
    assert {pieces for pieces, _ in paths} == expected.keys()
    assert len(paths) == len(expected)
    np.testing.assert_allclose([score for _, score in paths], sorted(expected.values(), reverse=True))
    np.testing.assert_allclose([score for _, score in paths], [expected[pieces] for pieces, _ in paths])


def test_the_best_and_the_second_best() -> None:
    best = small().n_best("ab?", 5)
    assert [ids.tolist() for ids, _ in best] == [[5, 7, 1], [4, 8, 1], [4, 6, 7, 1]]
    np.testing.assert_allclose([score for _, score in best], [-4.5 - 13.5, -6.5 - 13.5, -7 - 13.5])
    cut = small(pattern=r"\?|[^?]+")
    assert cut.n_best("a??b", 1)[0][0].tolist() == cut.encode("a??b").tolist() == [5, 1, 1, 7]
    assert [ids.tolist() for ids, _ in small().n_best("", 2)] == [[]]
    with pytest.raises(ValueError, match="n is 0"):
        small().n_best("", 0)


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


@pytest.mark.parametrize("alpha", [-0.1, inf, nan])
def test_a_bad_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha is"):
        small().sample("a", np.random.default_rng(0), alpha)


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


def test_the_log_probability_of_a_segmentation_is_that_of_its_pieces() -> None:
    assert small().log_probability(["▁a", "b", "?"]) == -2.0 - 2.5 - 13.5
    with pytest.raises(ValueError, match="'ba' is not a piece"):
        small().log_probability(["ba"])
