"""Byte pair encoding over bytes and over characters."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.bpe import BpeTokenizer, train_bpe
from tokenization.bpe_training import BYTE_ORDER
from tokenization.tokenizer import Specials, Tokenizer

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


def byte_id(character: str) -> int:
    return 3 + BYTE_ORDER.index(ord(character))


def test_both_are_tokenizers() -> None:
    assert isinstance(BYTES, Tokenizer)
    assert (BYTES.name, CHARACTERS.name) == ("bpe", "character-bpe")


@given(TEXT)
def test_every_text_comes_back_from_bytes(text: str) -> None:
    assert BYTES.lossless
    assert BYTES.decode(BYTES.encode(text)).decode("utf-8") == text


def test_merges_apply_in_the_order_of_the_list() -> None:
    """bc before ab, so abc is a|bc, although ab and c could be merged in turn."""
    a, b, c = map(byte_id, "abc")
    tokenizer = BpeTokenizer(((b, c), (a, b), (260, c)))
    assert tokenizer.pieces[259:] == (b"bc", b"ab", b"abc")
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


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
def test_token_bytes_join_to_the_decoded_text(tokenizer: BpeTokenizer) -> None:
    every = list(range(tokenizer.vocabulary_size))
    assert b"".join(tokenizer.token_bytes(i) for i in every) == tokenizer.decode([*every, 0])


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
@pytest.mark.parametrize("text", ["", b"", "x\x00y", "low été", b"lowest 12"])
def test_a_batch_is_its_texts(tokenizer: BpeTokenizer, text: str | bytes) -> None:
    first, second = tokenizer.encode_batch([text, "low " + CORPUS[0]])
    assert first.dtype == second.dtype == np.int32
    assert first.tolist() == tokenizer.encode(text).tolist() == tokenizer.encode_with_offsets(text)[0].tolist()


@given(TEXT)
def test_offsets_of_bytes_are_those_of_the_pieces(text: str) -> None:
    ids, places = BYTES.encode_with_offsets(text)
    assert ids.tolist() == BYTES.encode(text).tolist()
    assert [text.encode()[start:end] for start, end in places] == [BYTES.token_bytes(i) for i in ids.tolist()]


def test_offsets_are_in_bytes_of_the_normalised_text() -> None:
    """The text becomes "é  low". é has two bytes and is no character of l 4, o 5, w 6 and the end 7, which has none.

    The merges are lo 8 and, as w is the smaller left id, w with the end 9.
    """
    tokenizer = train_bpe(["low"], 10, unit="characters", pattern="whitespace", normalization=["nfc"])
    ids, places = tokenizer.encode_with_offsets("e\u0301  low")
    assert ids.tolist() == [1, 7, 8, 9]
    assert places.tolist() == [[0, 2], [2, 2], [4, 6], [6, 7]]


def test_offsets_where_a_pattern_leaves_text_out() -> None:
    tokenizer = replace(BYTES.shortened(259), pattern=r"\d+")
    assert not tokenizer.lossless
    assert tokenizer.encode_with_offsets("é1 23")[1].tolist() == [[2, 3], [4, 5], [5, 6]]


def test_a_pattern_that_matches_nothing_gives_no_word() -> None:
    tokenizer = replace(CHARACTERS, pattern="b*")
    assert tokenizer.encode("a").tolist() == []
    assert tokenizer.encode_dropped("a", 0.5, np.random.default_rng(0)).tolist() == []


def test_no_text_has_no_offsets() -> None:
    assert BYTES.encode_with_offsets("")[1].shape == (0, 2)


def test_a_shorter_vocabulary_is_that_of_a_shorter_training() -> None:
    assert BYTES.shortened(270) == train_bpe(CORPUS, 270)
    assert CHARACTERS.shortened(50) == train_bpe(CORPUS, 50, unit="characters", pattern="words")


@pytest.mark.parametrize("size", [258, 301])
def test_a_vocabulary_that_is_no_part(size: int) -> None:
    with pytest.raises(ValueError, match=f"vocabulary of {size} .* ask for 259 to 300"):
        BYTES.shortened(size)


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
def test_dropping_none_is_encoding(tokenizer: BpeTokenizer) -> None:
    generator = np.random.default_rng(0)
    assert tokenizer.encode_dropped(CORPUS[0], 0.0, generator).tolist() == tokenizer.encode(CORPUS[0]).tolist()


def test_dropping_all_leaves_the_alphabet() -> None:
    text = CORPUS[0]
    assert BYTES.encode_dropped(text, 1.0, np.random.default_rng(0)).tolist() == BYTES.shortened(259).encode(text).tolist()


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


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "byte 2"), ("ab\ud800", r"character 2 .* U\+D800")])
def test_what_is_no_text_is_named(tokenizer: BpeTokenizer, text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer.encode(text)


@pytest.mark.parametrize("ids", [[5, 300], [5, -1]])
def test_an_unknown_id_is_named(ids: list[int]) -> None:
    with pytest.raises(ValueError, match=f"id {ids[1]} at position 1 is none of the bpe tokenizer's 0 to 299"):
        BYTES.decode(ids)
    with pytest.raises(ValueError, match=f"id {ids[1]} "):
        BYTES.token_bytes(ids[1])


@pytest.mark.parametrize("letter", ["a", " "])
def test_one_piece_of_many_letters(letter: str) -> None:
    """2^18 letters are merged by 2, 4, 8 and 16; work that grew with the square would not end."""
    merges = ((byte_id(letter), byte_id(letter)), (259, 259), (260, 260), (261, 261))
    ids = BpeTokenizer(merges).encode(letter * 2**18)
    assert ids.tolist() == [262] * 2**14


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
def test_a_definition_is_json_and_gives_the_tokenizer_back(tokenizer: BpeTokenizer) -> None:
    definition = json.loads(json.dumps(tokenizer.definition()))
    assert BpeTokenizer.from_definition(definition) == tokenizer
    assert BpeTokenizer.from_definition(definition).digest() == tokenizer.digest()


@pytest.mark.parametrize(
    "other",
    [
        replace(BYTES, merges=BYTES.merges[:-1]),
        replace(BYTES, pattern="gpt4"),
        replace(BYTES, single_digits=True),
        replace(BYTES, normalization=("nfc",)),
        replace(CHARACTERS, alphabet=CHARACTERS.alphabet[::-1]),
    ],
)
def test_the_digest_knows_every_part(other: BpeTokenizer) -> None:
    assert other.digest() not in (BYTES.digest(), CHARACTERS.digest())


def test_the_digest_is_fixed() -> None:
    """Token files and records are keyed by it: it changes only when the same text gets other ids."""
    assert BpeTokenizer(((68, 69),)).digest() == "c1489e6cdd2e0694028677717df31cfbaf6559e09867f16659d800b03944e3e4"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "unigram"}, "of kind bpe has kind, unit"),
        ({"more": 1}, "this one has .*more"),
        ({"specials": {"pad": 1}}, "over bytes the specials are"),
    ],
)
def test_another_definition_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BpeTokenizer.from_definition(BYTES.definition() | change)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"merges": ((5, 259),)}, "merge 0 is of the ids 5 and 259"),
        ({"merges": ((2, 5),)}, "merge 0 is of the ids 2 and 5"),
        ({"merges": ((5, 5), (5, 5))}, "merge 1 makes a piece that is there already"),
        ({"merges": ((5, 5), (259, 5), (5, 259))}, "merge 2 makes a piece that is there already"),
        ({"merges": (), "alphabet": "ab"}, "given for characters only"),
        ({"merges": (), "unit": "characters", "alphabet": "aa"}, "each character once"),
        ({"merges": (), "pattern": "("}, "no regular expression"),
    ],
)
def test_what_is_no_tokenizer(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BpeTokenizer(**fields)
