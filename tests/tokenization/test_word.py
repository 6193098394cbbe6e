"""The word tokenizer."""

import pytest

from leadline.tokenization.tokenizer import first_specials
from leadline.tokenization.word import WordTokenizer, train_words

TEXTS = ("the cat sat on the mat", "the dog sat on the log")


def small() -> WordTokenizer:
    return train_words(TEXTS, order="sorted", pattern="whitespace")


def test_a_worked_example() -> None:
    tokenizer = small()
    assert tokenizer.specials == first_specials("pad", "unk", "bos", "eos")
    assert [tokenizer.token_bytes(token) for token in range(4, 11)] == [b"cat", b"dog", b"log", b"mat", b"on", b"sat", b"the"]
    assert tokenizer.encode(TEXTS[0]).tolist() == [10, 4, 9, 8, 10, 7]
    assert tokenizer.encode("the bird sat").tolist() == [10, 1, 9]


def test_frequent_words_come_first_and_ties_by_the_word() -> None:
    assert train_words(TEXTS).words == ("the", "on", "sat", "cat", "dog", "log", "mat")


def test_the_most_frequent_words_are_kept_when_they_are_sorted() -> None:
    assert train_words(TEXTS, 7, order="sorted").words == ("on", "sat", "the")


def test_decoding_joins_by_one_space_and_loses_the_unknown() -> None:
    tokenizer = small()
    assert tokenizer.decode(tokenizer.encode("the\n bird  sat")) == b"the sat"
    assert tokenizer.decode([2, 10, 0, 4, 3]) == b"the cat"


def test_offsets_are_bytes_of_the_normalized_text() -> None:
    ids, offsets = train_words(["é x"], normalization=["lower", "spaces"]).encode_with_offsets(" É  €  X")
    assert ids.tolist() == [5, 1, 4]
    assert offsets.tolist() == [[0, 2], [3, 6], [7, 8]]


def test_nul_is_a_character_like_others() -> None:
    assert small().encode("the\x00 cat").tolist() == [1, 4]


@pytest.mark.parametrize(("words", "message"), [(("a", ""), "entry 1 .* is empty"), (("a", "b", "a"), "'a' twice")])
def test_a_vocabulary_holds_every_word_once(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordTokenizer(words)
