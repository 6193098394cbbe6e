"""Cutting text into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.pretokenization import COVERING, PATTERNS, cut, places

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXT, st.sampled_from(sorted(COVERING)), st.booleans())
def test_covering_patterns_lose_nothing(text: str, pattern: str, single_digits: bool) -> None:
    assert "".join(cut(text, pattern, single_digits=single_digits)) == text


@given(TEXT, st.sampled_from(sorted(PATTERNS)), st.booleans())
def test_places_are_those_of_the_pieces(text: str, pattern: str, single_digits: bool) -> None:
    found = list(places(text, pattern, single_digits=single_digits))
    assert [piece for _, piece in found] == cut(text, pattern, single_digits=single_digits)
    assert all(text[start : start + len(piece)] == piece for start, piece in found)


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("gpt2", ["It", "'s", " 12345678", "!!", "  ", " x", "\n"]),
        ("gpt4", ["It", "'s", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("o200k", ["It's", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("words", ["It", "'", "s", "12345678", "!", "!", "x"]),
        ("whitespace", ["It's", "12345678!!", "x"]),
    ],
)
def test_patterns(pattern: str, pieces: list[str]) -> None:
    text = "It's 12345678!!   x\n"
    assert cut(text, pattern) == pieces


def test_single_digits_stand_alone() -> None:
    assert cut("a12 b", "gpt2", single_digits=True) == ["a", "1", "2", " b"]


@pytest.mark.parametrize(("pattern", "message"), [("(", "no regular expression"), ("(a)|b", "capturing group")])
def test_a_bad_pattern_is_named(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut("a", pattern)
