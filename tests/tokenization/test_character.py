"""The character tokenizer."""

import pytest

from leadline.tokenization.character import CharacterTokenizer, train_characters


def test_characters_ascend_behind_the_specials() -> None:
    tokenizer = train_characters(["cab", "é😀a"])
    assert [tokenizer.token_bytes(token).decode() for token in range(9)] == ["", "", "", "", "a", "b", "c", "é", "😀"]
    assert tokenizer.encode("bé?").tolist() == [5, 7, 1]


def test_an_unknown_character_is_lost() -> None:
    tokenizer = train_characters(["ab"])
    assert tokenizer.decode(tokenizer.encode("a?b")) == b"ab"


def test_the_most_frequent_characters_are_kept() -> None:
    assert train_characters(["cccbbaad"], 6).alphabet == "ac"


def test_a_tokenizer_without_characters_knows_none() -> None:
    assert train_characters([]).encode("ab").tolist() == [1, 1]


def test_offsets_are_those_of_the_normalized_text() -> None:
    ids, offsets = train_characters(["é"], normalization=["nfc"]).encode_with_offsets("e\u0301\x00")
    assert ids.tolist() == [4, 1]
    assert offsets.tolist() == [[0, 2], [2, 3]]


@pytest.mark.parametrize("alphabet", ["ba", "aa"])
def test_an_alphabet_ascends(alphabet: str) -> None:
    with pytest.raises(ValueError, match="ascend by code point"):
        CharacterTokenizer(alphabet)
