"""Text before it has ids, and rows of ids: normalising, cutting into words, counting them, bytes, digests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.tokenization.ids import contiguous_offsets, definition_digest, join_bytes
from leadline.tokenization.normalization import normalize
from leadline.tokenization.pretokenization import (
    COVERING,
    EXPANSION_LIMIT,
    PATTERNS,
    compile_pattern,
    expanded_size,
    pretokenize,
    pretokenize_with_starts,
)
from leadline.tokenization.tokenizer import Specials, first_specials
from leadline.tokenization.words import byte_starts, word_counts
from tests.refused import refused

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    ("steps", "text", "expected"),
    [
        ((), " É\t", " É\t"),
        ((), " É\t".encode(), " É\t"),
        (("nfc",), "e\u0301 \ufb01", "é \ufb01"),
        (("nfkc",), "e\u0301 \ufb01 \uff12", "é fi 2"),
        (("lower",), "ÉA İ", "éa i̇"),
        (("spaces",), " a \n\t b\u3000c ", "a b c"),
        (("nfkc", "lower", "spaces"), "\ufb01\u00a0 X", "fi x"),
    ],
)
def test_steps_of_normalization(steps: tuple, text: str | bytes, expected: str) -> None:
    assert normalize(text, steps) == expected


KNOWN = "give a list of steps, each one of nfc, nfkc, lower, spaces"
test_steps_that_are_none = refused(
    (lambda: normalize("a", "nfc"), f"normalization is 'nfc'; {KNOWN}"),
    (lambda: normalize("a", ["lower", "nfd"]), rf"normalization is \['lower', 'nfd'\]; {KNOWN}"),
)


@given(TEXT, st.sampled_from(sorted(PATTERNS)), st.booleans())
def test_words_and_their_starts(text: str, pattern: str, single_digits: bool) -> None:
    words = list(pretokenize_with_starts(text, pattern, single_digits=single_digits))
    assert [word for _, word in words] == pretokenize(text, pattern, single_digits=single_digits)
    assert all(text[start : start + len(word)] == word for start, word in words)
    if pattern in COVERING:
        assert "".join(word for _, word in words) == text


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("gpt2", ["It", "'s", " 12345678", "!!", "  ", " x", "\n"]),
        ("gpt4", ["It", "'s", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("cl100k", ["It", "'s", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("o200k", ["It's", " ", "123", "456", "78", "!!", "  ", " x", "\n"]),
        ("words", ["It", "'", "s", "12345678", "!", "!", "x"]),
        ("whitespace", ["It's", "12345678!!", "x"]),
    ],
)
def test_patterns(pattern: str, words: list[str]) -> None:
    assert pretokenize("It's 12345678!!   x\n", pattern) == words
    assert pretokenize("a12 b", pattern, single_digits=True)[:3] == ["a", "1", "2"]


def test_white_space_at_the_end_is_one_word_of_cl100k() -> None:
    assert pretokenize("a\n  b\n  ", "cl100k") == ["a", "\n", " ", " b", "\n  "]
    assert pretokenize("a\n  b\n  ", "gpt4") == ["a", "\n", " ", " b", "\n", "  "]


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
    """The two characters ?: of a group count as elements; separate repetitions add up."""
    assert expanded_size(pattern) == size
    assert expanded_size(f"{pattern}{pattern}") <= 2 * size < EXPANSION_LIMIT
    compile_pattern(pattern)


def test_words_are_counted_as_they_are_cut() -> None:
    counts = word_counts(["B b", "É 12".encode()], "words", normalization=["lower"], single_digits=True)
    assert counts == {"b": 2, "é": 1, "1": 1, "2": 1}
    assert word_counts(["ab ab"], "[ab]*") == {"ab": 2}  # a match of nothing is no word


def test_bytes_of_characters_and_of_ids() -> None:
    assert byte_starts("aé€😀").tolist() == [0, 1, 3, 6, 10]
    assert byte_starts("").tolist() == [0]
    table, ids = (b"", b"ab", "é".encode()), np.array([1, 0, 2], np.int32)
    assert join_bytes(ids, table, "toy") == "abé".encode()
    assert contiguous_offsets(ids, table).tolist() == [[0, 2], [2, 2], [2, 4]]
    assert contiguous_offsets(np.empty(0, np.int32), table).shape == (0, 2)


def test_the_order_of_specials_and_keys() -> None:
    assert first_specials("pad", "bos").named() == {"pad": 0, "bos": 1}
    assert Specials(pad=5, bos=3).ids() == (3, 5)
    assert definition_digest({"a": 1, "b": 2}) == definition_digest({"b": 2, "a": 1}) != definition_digest({"a": 2, "b": 2})
