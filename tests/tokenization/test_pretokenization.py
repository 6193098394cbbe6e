"""Cutting text into words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tokenization.pretokenization import (
    COVERING,
    EXPANSION_LIMIT,
    PATTERNS,
    compile_pattern,
    expanded_size,
    pretokenize,
    pretokenize_with_starts,
)

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXT, st.sampled_from(sorted(COVERING)), st.booleans())
def test_covering_patterns_lose_nothing(text: str, pattern: str, single_digits: bool) -> None:
    assert "".join(pretokenize(text, pattern, single_digits=single_digits)) == text


@given(TEXT, st.sampled_from(sorted(PATTERNS)), st.booleans())
def test_starts_are_those_of_the_words(text: str, pattern: str, single_digits: bool) -> None:
    words = list(pretokenize_with_starts(text, pattern, single_digits=single_digits))
    assert [word for _, word in words] == pretokenize(text, pattern, single_digits=single_digits)
    assert all(text[start : start + len(word)] == word for start, word in words)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("gpt2", ["It", "'s", " 12345678", "!!", "  ", " x", "\n"]),
        ("gpt4", ["It", "'s", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("o200k", ["It's", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("words", ["It", "'", "s", "12345678", "!", "!", "x"]),
        ("whitespace", ["It's", "12345678!!", "x"]),
    ],
)
def test_patterns(pattern: str, words: list[str]) -> None:
    assert pretokenize("It's 12345678!!   x\n", pattern) == words


def test_single_digits_stand_alone() -> None:
    assert pretokenize("a12 b", "gpt2", single_digits=True) == ["a", "1", "2", " b"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"'\(' is not a regular expression"),
        ("(a)|b", "capturing group"),
        ("(" * 100_000, r"\(…' is not a regular expression|\(…' has a capturing group"),
        ("x{99999999}", r"'x\{99999999\}' expand to more than 100000 elements"),
        ("x{0,99999999}|y", "expand to more than"),
        (r"(?:\p{L}{1000}|[)\]]){101}", "expand to more than"),
        ("(?x)x{99 999 999}", "expand to more than"),
    ],
)
def test_a_bad_pattern_is_named(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        pretokenize("a", pattern)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("pattern", "size"),
    [("ab", 2), ("a{3}b", 4), ("a{2,}", 2), ("(?:ab){3}", 12), ("(?:(?:a{10}){10}){10}", 1220), (r"\{9}", 3), ("[{9}]", 1)],
)
def test_repetitions_are_written_out(pattern: str, size: int) -> None:
    """The two characters ?: of a group count as elements."""
    assert expanded_size(pattern) == size


def test_separate_repetitions_add_up() -> None:
    assert 1000 < expanded_size("a{1000}b{1000}c{1000}") < EXPANSION_LIMIT
    assert compile_pattern("a{1000}b{1000}c{1000}").findall("a" * 1000 + "b" * 1000 + "c" * 1000)
