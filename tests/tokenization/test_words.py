"""Counting words, and laying the ids of words over a text."""

import pytest

from tokenization.word import WordTokenizer
from tokenization.words import byte_starts, word_counts


def test_words_are_counted_as_they_are_cut() -> None:
    counts = word_counts(["B b", "É 12".encode()], "words", normalization=["lower"], single_digits=True)
    assert counts == {"b": 2, "é": 1, "1": 1, "2": 1}


def test_a_pattern_that_matches_nothing_gives_no_word() -> None:
    tokenizer = WordTokenizer(("ab",), pattern="[ab]*")
    assert word_counts(["ab ab"], "[ab]*") == {"ab": 2}
    assert tokenizer.encode("ab ab").tolist() == tokenizer.encode_with_offsets("ab ab")[0].tolist() == [4, 4]


def test_characters_of_one_to_four_bytes() -> None:
    assert byte_starts("aé€😀").tolist() == [0, 1, 3, 6, 10]
    assert byte_starts("").tolist() == [0]


def test_a_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(ValueError, match="not UTF-8 at byte 1"):
        word_counts(["ok", b"a\xff"], "words")
