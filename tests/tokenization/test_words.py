"""Counting words, and encoding word by word."""

import pytest

from leadline.tokenization.word import WordTokenizer
from leadline.tokenization.words import byte_starts, word_counts


def test_words_are_counted_as_they_are_cut() -> None:
    counts = word_counts(["B b", "É 12".encode()], "words", normalization=["lower"], single_digits=True)
    assert counts == {"b": 2, "é": 1, "1": 1, "2": 1}


def test_a_match_of_nothing_is_no_word() -> None:
    tokenizer = WordTokenizer(("ab",), pattern="[ab]*")
    assert word_counts(["ab ab"], "[ab]*") == {"ab": 2}
    assert tokenizer.encode("ab ab").tolist() == tokenizer.encode_with_offsets("ab ab")[0].tolist() == [4, 4]


@pytest.mark.parametrize(("text", "starts"), [("aé€😀", [0, 1, 3, 6, 10]), ("", [0])])
def test_characters_start_behind_one_to_four_bytes(text: str, starts: list[int]) -> None:
    assert byte_starts(text).tolist() == starts
