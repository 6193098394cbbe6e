"""Cutting words into WordPieces."""

import pytest

from leadline.tokenization.tokenizer import first_specials
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer, continues

PIECES = ("a", "b", "ab", "abc", "##a", "##b", "##bc", "##cb", "é", "##é")


def test_the_longest_match_comes_first() -> None:
    """A greedy cut is not the shortest: abcb could be ab and ##cb."""
    tokenizer = WordPieceTokenizer(PIECES)
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


def test_offsets_are_those_of_the_normalized_text() -> None:
    tokenizer = WordPieceTokenizer(PIECES, normalization=("nfc", "lower"))
    ids, offsets = tokenizer.encode_with_offsets("AE\u0301 ñA")
    assert ids.tolist() == [6, 15, 1]
    assert offsets.tolist() == [[0, 1], [1, 3], [4, 7]]


def test_a_very_long_word_takes_time_linear_in_its_length() -> None:
    tokenizer = WordPieceTokenizer(("a", "##a", "##aaa"), longest_word=10**5)
    assert len(tokenizer.encode("a" * 10**5)) == 1 + 33_333


def test_nul_is_a_character_like_others() -> None:
    assert WordPieceTokenizer(("a", "\x00")).encode("a\x00a").tolist() == [6, 7, 6]


def test_a_vocabulary_holds_every_piece_once() -> None:
    with pytest.raises(ValueError, match="'##a' twice"):
        WordPieceTokenizer(("a", "##a", "##a"))
