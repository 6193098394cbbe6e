"""Training a unigram model: expectation maximization against lists of all segmentations, then the rounds."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.unigram.em import Maximization, expectation, lattices, log_sums, maximization, removal_losses
from leadline.tokenization.unigram.training import train_unigram, training_rounds

PIECES = ["a", "b", "bab", "aa", "ab", "ba"]
SCORES = np.log([0.3, 0.25, 0.05, 0.1, 0.2, 0.1])
WORDS = st.dictionaries(st.text("ab", min_size=1, max_size=7), st.integers(1, 5), min_size=1, max_size=6)
TEXTS = ["the cat sat on the mat, the dog sat on the log", "a cat and a dog and another cat", "that mat, that log, the others"]
COUNTS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def every(text: str) -> Iterator[tuple[str, ...]]:
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        if text[:end] in PIECES:
            yield from ((text[:end], *rest) for rest in every(text[end:]))


def probability(segmentation: tuple[str, ...]) -> float:
    return exp(sum(SCORES[PIECES.index(piece)] for piece in segmentation))


def lattices_of(words: Sequence[str], pieces: Sequence[str] = PIECES):
    return lattices(words, {piece: i for i, piece in enumerate(pieces)}, 3)


@settings(max_examples=40)
@given(WORDS)
def test_expected_counts_and_likelihood(counts: dict[str, int]) -> None:
    """Of all segmentations; and six steps of EM never lower the likelihood."""
    words = sorted(counts, key=lambda word: (-len(word), word))
    arcs, weights = lattices_of(words), np.array([counts[word] for word in words], np.float64)
    expected, likelihood = Counter(), 0.0
    for word, count in counts.items():
        whole = sum(probability(segmentation) for segmentation in every(word))
        likelihood += count * log(whole)
        for segmentation in every(word):
            share = count * probability(segmentation) / whole
            expected.update({piece: n * share for piece, n in Counter(segmentation).items()})
    computed, log_likelihood = expectation(arcs, weights, SCORES)
    np.testing.assert_allclose(computed, [expected[piece] for piece in PIECES], atol=1e-12)
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


def test_the_loss_of_a_piece() -> None:
    """bab is spelled otherwise as b a b, b ab and ba b; ab as a b."""
    counts = np.array([9.0, 8, 7, 6, 5, 4])
    losses = removal_losses(lattices_of(PIECES[2:]), counts, SCORES)
    rest = [0.25 * 0.3 * 0.25 + 0.25 * 0.2 + 0.1 * 0.25, 0.3 * 0.3, 0.3 * 0.25, 0.25 * 0.3]
    np.testing.assert_allclose(losses, counts[2:] * (SCORES[2:] - np.log(rest)))


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
    rounds = list(training_rounds(COUNTS, 10, seed_size=30, shrinking_factor=0.8))
    assert [len(step.pieces) for step in rounds] == [19, 15, 12, 10]
    assert all(set("hugpnbs") <= set(step.pieces) for step in rounds)
    assert all(set(later.pieces) <= set(earlier.pieces) for earlier, later in pairwise(rounds))
    assert {piece for piece in list(training_rounds(COUNTS, 10))[-1].pieces if len(piece) > 1} == {"hug", "pug", "pun"}


def test_probabilities_descend_and_sum_to_one() -> None:
    tokenizer = train_unigram(TEXTS, 40, m_step="likelihood").tokenizer
    assert list(tokenizer.scores) == sorted(tokenizer.scores, reverse=True)
    assert np.exp(tokenizer.scores).sum() == pytest.approx(1)


def test_pieces_are_written_as_sentencepiece_does() -> None:
    tokenizer = train_unigram(TEXTS, 60, escape=True, dummy_prefix=True, normalization=["lower"]).tokenizer
    assert "▁the" in tokenizer.pieces
    assert not any(" " in piece for piece in tokenizer.pieces)
    assert tokenizer.decode(tokenizer.encode("The cat")) == b"the cat"


def test_pieces_are_as_long_and_as_many_as_asked_for_and_there_are() -> None:
    """A very long word is cut, or a pass over 200,000 characters would be as many operations on arrays of one entry."""
    assert max(map(len, train_unigram(TEXTS, 60, longest_piece=2).tokenizer.pieces)) == 2
    assert train_unigram(["ab ab"], 1000, pattern="whitespace").tokenizer.pieces == ("ab", "a", "b")
    assert set(train_unigram(["a" * 200_000], 100).tokenizer.pieces) == {"a" * n for n in range(1, 17)}


@pytest.mark.parametrize("fields", [{"shrinking_factor": 1.0}, {"shrinking_factor": 0.0}, {"sub_iterations": 0}])
def test_what_is_no_round_is_refused(fields: dict) -> None:
    with pytest.raises(ValueError, match="a round keeps"):
        train_unigram(TEXTS, 100, **fields)


def test_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match="no word to train on"):
        train_unigram([""], 100)
