"""The character tokenizer."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.character import CharacterTokenizer, train_characters
from tokenization.tokenizer import Tokenizer


def test_characters_ascend_behind_the_specials() -> None:
    tokenizer: Tokenizer = train_characters(["cab", "é😀a"])
    assert [tokenizer.token_bytes(i).decode() for i in range(9)] == ["", "", "", "", "a", "b", "c", "é", "😀"]
    assert tokenizer.encode("bé?").tolist() == [5, 7, 1]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50))
def test_a_text_of_known_characters_comes_back(text: str) -> None:
    tokenizer = train_characters([text])
    ids, places = tokenizer.encode_with_offsets(text)
    assert tokenizer.decode(ids).decode() == text
    assert [text.encode()[a:b] for a, b in places] == [tokenizer.token_bytes(i) for i in ids.tolist()]


def test_an_unknown_character_is_lost() -> None:
    tokenizer = train_characters(["ab"])
    assert not tokenizer.lossless
    assert tokenizer.decode(tokenizer.encode("a?b")) == b"ab"


def test_a_tokenizer_without_characters_knows_none() -> None:
    assert train_characters([]).encode("ab").tolist() == [1, 1]


def test_places_are_those_of_the_normalised_text() -> None:
    ids, places = train_characters(["é"], normalization=["nfc"]).encode_with_offsets("e\u0301\x00")
    assert ids.tolist() == [4, 1]
    assert places.tolist() == [[0, 2], [2, 3]]


def test_an_empty_text_has_no_ids() -> None:
    ids, places = train_characters(["ab"]).encode_with_offsets("")
    assert ids.shape == (0,)
    assert places.shape == (0, 2)


def test_a_definition_comes_back() -> None:
    tokenizer = train_characters(["née"], normalization=["nfc"])
    again = CharacterTokenizer.from_definition(json.loads(json.dumps(tokenizer.definition())))
    assert again == tokenizer
    assert again.digest() == tokenizer.digest() != train_characters(["née"]).digest()


@pytest.mark.parametrize("alphabet", ["ba", "aa"])
def test_an_alphabet_ascends(alphabet: str) -> None:
    with pytest.raises(ValueError, match="ascend by code point"):
        CharacterTokenizer(alphabet)


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "not UTF-8 at byte 2"), ("ab\ud800", "character 2 .* U\\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_characters(["ab"]).encode(text)


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(ValueError, match="id 6 at position 0 is none of the character tokenizer's 0 to 5"):
        train_characters(["ab"]).decode(np.array([6]))


def test_one_text_is_no_sequence_of_texts() -> None:
    with pytest.raises(ValueError, match="one text"):
        train_characters("ab")
