"""The word tokenizer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.tokenizer import Tokenizer, first_specials
from tokenization.word import WordTokenizer, train_words

TEXTS = ("the cat sat on the mat", "the dog sat on the log")


def small() -> WordTokenizer:
    return train_words(TEXTS, order="sorted", pattern="whitespace")


def test_a_worked_example() -> None:
    tokenizer: Tokenizer = small()
    assert tokenizer.vocabulary_size == 11
    assert [tokenizer.token_bytes(i) for i in range(4, 11)] == [b"cat", b"dog", b"log", b"mat", b"on", b"sat", b"the"]
    assert tokenizer.encode(TEXTS[0]).tolist() == [10, 4, 9, 8, 10, 7]
    assert tokenizer.encode("the bird sat").tolist() == [10, 1, 9]


def test_specials_come_first() -> None:
    assert small().specials == first_specials("pad", "unk", "bos", "eos")
    assert [small().token_bytes(i) for i in range(4)] == [b""] * 4


def test_frequent_words_come_first_and_ties_by_the_word() -> None:
    assert train_words(TEXTS).words == ("the", "on", "sat", "cat", "dog", "log", "mat")


def test_a_smaller_vocabulary_is_a_prefix() -> None:
    assert train_words(TEXTS, 8).words == train_words(TEXTS).words[:4]


def test_the_most_frequent_words_are_kept_when_they_are_sorted() -> None:
    assert train_words(TEXTS, 7, order="sorted").words == ("on", "sat", "the")


def test_decoding_joins_by_one_space_and_loses_the_unknown() -> None:
    tokenizer = small()
    assert tokenizer.decode(tokenizer.encode("the\n bird  sat")) == b"the sat"
    assert tokenizer.decode([2, 10, 0, 4, 3]) == b"the cat"


def test_punctuation_stands_alone() -> None:
    tokenizer = train_words(["It's 12."], order="sorted", single_digits=True)
    assert tokenizer.words == ("'", ".", "1", "2", "It", "s")


def test_offsets_are_bytes_of_the_normalised_text() -> None:
    ids, places = train_words(["é x"], normalization=["lower", "spaces"]).encode_with_offsets(" É  €  X")
    assert ids.tolist() == [5, 1, 4]
    assert places.tolist() == [[0, 2], [3, 6], [7, 8]]


@given(st.text(alphabet="ab é\n", max_size=30))
def test_places_hold_the_words(text: str) -> None:
    tokenizer = train_words([text], pattern="whitespace")
    ids, places = tokenizer.encode_with_offsets(text)
    assert ids.tolist() == tokenizer.encode(text).tolist()
    assert [text.encode()[a:b] for a, b in places] == [tokenizer.token_bytes(i) for i in ids.tolist()]


def test_a_text_without_words_has_no_ids() -> None:
    ids, places = small().encode_with_offsets(" \n")
    assert ids.shape == (0,)
    assert places.shape == (0, 2)
    assert small().encode_batch([""])[0].shape == (0,)


def test_nul_is_a_character_like_others() -> None:
    assert small().encode("the\x00 cat").tolist() == [1, 4]


def test_a_definition_comes_back() -> None:
    tokenizer = train_words(TEXTS, normalization=["nfc"])
    again = WordTokenizer.from_definition(json.loads(json.dumps(tokenizer.definition())))
    assert again == tokenizer
    assert again.digest() == tokenizer.digest() != small().digest()


def test_a_definition_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no tokenizer of the kind 'character'"):
        WordTokenizer.from_definition(small().definition() | {"kind": "character"})


def test_a_definition_that_lacks_a_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has the fields .*'words'.*not \['pattern'\]"):
        WordTokenizer.from_definition({"kind": "word", "pattern": "words"})


@pytest.mark.parametrize("ids", [[4, 11], [4, -1]])
def test_an_unknown_id_is_named(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f"id {ids[1]} at position 1 is none of the word tokenizer's 0 to 10"):
        small().decode(ids)


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "not UTF-8 at byte 2"), ("ab\ud800", "character 2 .* U\\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small().encode(text)


@pytest.mark.parametrize(("words", "message"), [(("a", ""), "entry 1 .* is empty"), (("a", "b", "a"), "'a' twice")])
def test_a_vocabulary_holds_every_word_once(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordTokenizer(words)


def test_one_text_is_no_sequence_of_texts() -> None:
    with pytest.raises(ValueError, match="one text"):
        train_words("the cat")


def test_a_vocabulary_of_specials_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="4 has no room for a word"):
        train_words(TEXTS, 4)
