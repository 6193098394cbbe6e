"""All segmentations of a string, against a list of them; tests/tokenization/test_examples.py has the best ones by hand."""

from collections.abc import Iterator
from dataclasses import replace
from math import exp, isclose, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.tokenization.unigram.lattice import Pieces, forward, lattice, viterbi
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
@given(TEXTS)
def test_the_best_and_the_sum(text: str) -> None:
    path = viterbi(text, PIECES)
    assert "".join(text[arc.start : arc.end] for arc in path) == text
    assert isclose(sum(arc.score for arc in path), max(score for _, score in every(text)), abs_tol=1e-9)
    expected = log(sum(exp(score) for _, score in every(text)))
    assert isclose(forward(lattice([text], PIECES))[-1], expected, abs_tol=1e-9)


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
