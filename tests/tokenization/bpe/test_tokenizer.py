"""Byte pair encoding over bytes and over characters."""

from dataclasses import replace

import numpy as np
import pytest

from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.bpe.training import BYTE_ORDER
from leadline.tokenization.tokenizer import Specials

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")


def byte_id(character: str) -> int:
    return 3 + BYTE_ORDER.index(ord(character))


def test_merges_apply_in_the_order_of_the_list() -> None:
    """bc before ab, so abc is a|bc, although ab and c could be merged in turn."""
    a, b, c = map(byte_id, "abc")
    tokenizer = BpeTokenizer(((b, c), (a, b), (260, c)))
    assert tokenizer.table[259:] == (b"bc", b"ab", b"abc")
    assert tokenizer.encode("abc abd").tolist() == [a, 259, byte_id(" "), 260, byte_id("d")]


def test_specials_are_before_the_pieces() -> None:
    assert BYTES.specials == Specials(pad=0, bos=1, eos=2)
    assert CHARACTERS.specials == Specials(pad=0, unk=1, bos=2, eos=3)
    assert BYTES.vocabulary_size == 3 + 256 + len(BYTES.merges) == 300
    assert BYTES.decode([0, 1, byte_id("a"), 2]) == b"a"
    assert CHARACTERS.decode([2, 1, 0, 3]) == b""


def test_words_of_characters() -> None:
    """low, lower, lowest of ids e 4, l 5, o 6, r 7, s 8, t 9, w 10, the end 11; lo 12, low 13, lowe 14 are merged."""
    tokenizer = train_bpe(["low lower lowest"], 15, unit="characters", pattern="whitespace")
    assert tokenizer.alphabet == "elorstw"
    assert tokenizer.merges == ((5, 6), (12, 10), (13, 4))
    assert tokenizer.encode("low  lowest\n").tolist() == [13, 11, 14, 8, 9, 11]
    assert tokenizer.encode("xé").tolist() == [1, 1, 11]


def test_white_space_between_words_becomes_a_space() -> None:
    assert not CHARACTERS.lossless
    assert CHARACTERS.decode(CHARACTERS.encode(" low,\n\tlowest ")) == b"low , lowest"


def test_offsets_are_in_bytes_of_the_normalized_text() -> None:
    """The text becomes "é  low". é has two bytes and is no character of l 4, o 5, w 6 and the end 7, which has none.

    The merges are lo 8 and, as w is the smaller left id, w with the end 9.
    """
    tokenizer = train_bpe(["low"], 10, unit="characters", pattern="whitespace", normalization=["nfc"])
    ids, offsets = tokenizer.encode_with_offsets("e\u0301  low")
    assert ids.tolist() == [1, 7, 8, 9]
    assert offsets.tolist() == [[0, 2], [2, 2], [4, 6], [6, 7]]


def test_offsets_where_a_pattern_leaves_text_out() -> None:
    tokenizer = replace(BYTES.shortened(259), pattern=r"\d+")
    assert not tokenizer.lossless
    assert tokenizer.encode_with_offsets("é1 23")[1].tolist() == [[2, 3], [4, 5], [5, 6]]


def test_a_pattern_that_matches_nothing_gives_no_word() -> None:
    tokenizer = replace(CHARACTERS, pattern="b*")
    assert tokenizer.encode("a").tolist() == []
    assert tokenizer.encode_dropped("a", 0.5, np.random.default_rng(0)).tolist() == []


def test_a_shorter_vocabulary_is_that_of_a_shorter_training() -> None:
    assert BYTES.shortened(270) == train_bpe(CORPUS, 270)
    assert CHARACTERS.shortened(50) == train_bpe(CORPUS, 50, unit="characters", pattern="words")


@pytest.mark.parametrize("size", [258, 301])
def test_a_vocabulary_that_is_no_part(size: int) -> None:
    with pytest.raises(ValueError, match=f"259 to 300 ids, not {size}"):
        BYTES.shortened(size)


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_dropping_none_is_encoding_and_dropping_all_leaves_the_alphabet(tokenizer: BpeTokenizer, rate: float) -> None:
    merged = tokenizer if rate == 0.0 else replace(tokenizer, merges=())
    dropped = tokenizer.encode_dropped(CORPUS[0], rate, np.random.default_rng(0))
    assert dropped.tolist() == merged.encode(CORPUS[0]).tolist()


def test_dropping_some_cuts_equal_words_differently() -> None:
    """Each time the text comes back, one generator gives the same ids, and the rows are longer than without."""
    rows = [BYTES.encode_dropped("lowest lowest lowest" * 9, 0.5, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert {BYTES.decode(row) for row in rows} == {b"lowest lowest lowest" * 9}
    assert rows[0].tolist() == rows[1].tolist() != rows[2].tolist()
    assert len(rows[0]) > len(BYTES.encode("lowest lowest lowest" * 9))
    words = rows[0].tolist()
    assert len({tuple(words[at : at + 3]) for at in range(len(words))}) > 20


def test_one_merge_is_dropped_at_the_rate() -> None:
    """ab, a thousand times: made with probability 3/4; 5 standard deviations are 5 sqrt(1000 · 3/16) = 68."""
    tokenizer = BpeTokenizer(((byte_id("a"), byte_id("b")),), pattern="ab")
    ids = tokenizer.encode_dropped("ab" * 1000, 0.25, np.random.default_rng(0))
    assert abs((ids == 259).sum() - 750) < 68


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_that_is_no_probability(rate: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        BYTES.encode_dropped("a", rate, np.random.default_rng(0))


@pytest.mark.parametrize("letter", ["a", " "])
def test_one_piece_of_many_letters(letter: str) -> None:
    """2^15 letters are merged by 2, 4, 8 and 16."""
    merges = ((byte_id(letter), byte_id(letter)), (259, 259), (260, 260), (261, 261))
    ids = BpeTokenizer(merges).encode(letter * 2**15)
    assert ids.tolist() == [262] * 2**11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "unigram"}, "of the kind bpe has kind"),
        ({"more": 1}, "this one has .*more"),
        ({"specials": {"pad": 1}}, "specials over bytes are"),
    ],
)
def test_another_definition_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BpeTokenizer.from_definition(BYTES.definition() | change)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"merges": ((5, 259),)}, "merge 0 joins the ids 5 and 259"),
        ({"merges": ((2, 5),)}, "merge 0 joins the ids 2 and 5"),
        ({"merges": ((5, 5), (5, 5))}, "merge 1 makes a piece that exists already"),
        ({"merges": ((5, 5), (259, 5), (5, 259))}, "merge 2 makes a piece that exists already"),
        ({"merges": (), "alphabet": "ab"}, "given for characters only"),
        ({"merges": (), "unit": "characters", "alphabet": "aa"}, "each character once"),
        ({"merges": (), "pattern": "("}, "not a regular expression"),
    ],
)
def test_what_is_no_tokenizer(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BpeTokenizer(**fields)
