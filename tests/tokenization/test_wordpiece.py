"""Cutting words into WordPieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.tokenizer import Tokenizer, first_specials
from tokenization.wordpiece import WordPieceTokenizer, continues

PIECES = ("a", "b", "ab", "abc", "##a", "##b", "##bc", "##cb", "é", "##é")


def test_the_longest_match_comes_first() -> None:
    """A greedy cut is not the shortest: abcb could be ab and ##cb."""
    tokenizer: Tokenizer = WordPieceTokenizer(PIECES)
    assert tokenizer.encode("abcb").tolist() == [6 + PIECES.index("abc"), 6 + PIECES.index("##b")]


def test_specials_come_first() -> None:
    tokenizer = WordPieceTokenizer(PIECES)
    assert tokenizer.specials == first_specials("pad", "unk", "bos", "eos", "cls", "sep")
    assert [tokenizer.token_bytes(i) for i in range(7)] == [b""] * 6 + [b"a"]


def test_a_word_with_an_unknown_part_is_one_unknown() -> None:
    assert WordPieceTokenizer(PIECES).encode("ab abx x a").tolist() == [8, 1, 1, 6]


@pytest.mark.parametrize(("longest", "expected"), [(3, [9]), (2, [1])])
def test_a_longer_word_is_unknown(longest: int, expected: list[int]) -> None:
    assert WordPieceTokenizer(PIECES, longest_word=longest).encode("abc").tolist() == expected


def test_decoding_joins_words_by_one_space() -> None:
    tokenizer = WordPieceTokenizer(PIECES)
    assert tokenizer.decode(tokenizer.encode("abcb\n x  bé")) == "abcb bé".encode()
    assert tokenizer.decode([4, *tokenizer.encode("ab").tolist(), 5, 0]) == b"ab"


def test_signs_of_continuation_in_a_text_are_text() -> None:
    tokenizer = WordPieceTokenizer(("#", "##", "##a", "###"), pattern="whitespace")
    assert [continues(piece) for piece in tokenizer.pieces] == [False, False, True, True]
    assert tokenizer.encode("##a ###").tolist() == [7, 8, 7, 9]
    assert tokenizer.decode([7, 8, 7, 9]) == b"##a ###"


@given(st.text(alphabet="abcé \n", max_size=30))
def test_places_hold_the_pieces(text: str) -> None:
    tokenizer = WordPieceTokenizer(PIECES)
    ids, places = tokenizer.encode_with_offsets(text)
    assert ids.tolist() == tokenizer.encode(text).tolist()
    known = [(text.encode()[a:b], tokenizer.token_bytes(i)) for i, (a, b) in zip(ids.tolist(), places, strict=True) if i != 1]
    assert [found for found, _ in known] == [expected for _, expected in known]


def test_places_are_those_of_the_normalised_text() -> None:
    tokenizer = WordPieceTokenizer(PIECES, normalization=("nfc", "lower"))
    ids, places = tokenizer.encode_with_offsets("AE\u0301 ñA")
    assert ids.tolist() == [6, 15, 1]
    assert places.tolist() == [[0, 1], [1, 3], [4, 7]]


def test_a_very_long_word_takes_time_linear_in_its_length() -> None:
    tokenizer = WordPieceTokenizer(("a", "##a", "##aaa"), longest_word=10**6)
    assert len(tokenizer.encode("a" * 10**6)) == 1 + 333_333


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_without_words_has_no_ids(text: str) -> None:
    ids, places = WordPieceTokenizer(PIECES).encode_with_offsets(text)
    assert ids.shape == (0,)
    assert places.shape == (0, 2)


def test_nul_is_a_character_like_others() -> None:
    assert WordPieceTokenizer(("a", "\x00")).encode("a\x00a").tolist() == [6, 7, 6]


def test_a_definition_comes_back() -> None:
    tokenizer = WordPieceTokenizer(PIECES, "whitespace", normalization=("nfc",), longest_word=7)
    again = WordPieceTokenizer.from_definition(json.loads(json.dumps(tokenizer.definition())))
    assert again == tokenizer
    assert again.digest() == tokenizer.digest() != WordPieceTokenizer(PIECES).digest()


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(ValueError, match="id 16 at position 1 is none of the wordpiece tokenizer's 0 to 15"):
        WordPieceTokenizer(PIECES).decode([3, 16])


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "not UTF-8 at byte 2"), ("ab\ud800", "character 2 .* U\\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer(PIECES).encode(text)


def test_a_vocabulary_holds_every_piece_once() -> None:
    with pytest.raises(ValueError, match="'##a' twice"):
        WordPieceTokenizer(("a", "##a", "##a"))
