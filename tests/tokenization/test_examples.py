"""What each kind makes of short texts, worked out by hand, and the vocabularies that it refuses."""

from dataclasses import replace
from functools import partial
from math import inf

import pytest

from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.bpe.training import BYTE_ORDER
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer, train_characters
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.ids import LARGEST_ID
from leadline.tokenization.tokenizer import Specials, Tokenizer, first_specials
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.word import WordTokenizer, train_words
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer, continues
from tests.refused import refused

TEXTS = ("the cat sat on the mat", "the dog sat on the log")
# cat 4, dog, log, mat, on, sat, the 10
SORTED = WordTokenizer(("cat", "dog", "log", "mat", "on", "sat", "the"), "whitespace")
# e 4, l 5, o 6, r 7, s 8, t 9, w 10, the end 11; lo 12, low 13, lowe 14
LOW = train_bpe(["low lower lowest"], 15, unit="characters", pattern="whitespace")
# l 4, o 5, w 6, the end 7; lo 8 and, as w is the smaller left id, w with the end 9
NFC_LOW = train_bpe(["low"], 10, unit="characters", pattern="whitespace", normalization=["nfc"])
# a 6, b, ab, abc, ##a, ##b 11, ##bc, ##cb, é, ##é 15
PIECES = WordPieceTokenizer(("a", "b", "ab", "abc", "##a", "##b", "##bc", "##cb", "é", "##é"))
BYTES_OF_PIECES = replace(PIECES, pattern="gpt4", byte_fallback=True)  # bytes from 6 on, a 262
SIGNS = WordPieceTokenizer(("#", "##", "##a", "###"), pattern="whitespace")
SCORES = {"▁": -3.0, "▁a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5, "é": -4.0, "c": -5.0}
# ▁ 4, ▁a, a, b, ab, é, c 10; ▁a, b, ab has -8 nats, ▁a, b, a, b -8.5 and ▁, ab, ab -10.
UNIGRAM = UnigramTokenizer(tuple(SCORES), tuple(SCORES.values()), escape=True, dummy_prefix=True)
PLAIN = replace(UNIGRAM, dummy_prefix=False)
BYTEWISE = replace(UNIGRAM, byte_fallback=True)  # bytes from 4 on, ▁ 260
SINGLE = {bytes([byte]): byte for byte in range(256)}


def byte_id(character: str) -> int:
    return 3 + BYTE_ORDER.index(ord(character))


A, B, C = map(byte_id, "abc")
# bc 259 before ab 260, so abc is a|bc, although ab and c could be merged in turn.
MERGES = BpeTokenizer(((B, C), (A, B), (260, C)))

EXAMPLES: dict[str, tuple[Tokenizer, str, list[int], str]] = {
    "bytes": (ByteTokenizer(), "é\x00a", [0xC3, 0xA9, 0, 97], "é\x00a"),
    "characters": (train_characters(["cab", "é😀a"]), "bé?😀", [5, 7, 1, 8], "bé😀"),
    "characters and bytes": (
        train_characters(["ab"], byte_fallback=True),
        "bé\x00a",
        [261, 4 + 0xC3, 4 + 0xA9, 4, 260],
        "bé\x00a",
    ),
    "no character": (train_characters([]), "ab", [1, 1], ""),
    "words": (SORTED, "the cat sat on the mat", [10, 4, 9, 8, 10, 7], "the cat sat on the mat"),
    "an unknown word": (SORTED, "the\n bird  sat", [10, 1, 9], "the sat"),
    "NUL in a word": (SORTED, "the\x00 cat", [1, 4], "cat"),
    "a match of nothing is no word": (WordTokenizer(("ab",), "[ab]*"), "ab ab", [4, 4], "ab ab"),
    "merges in the order of the list": (MERGES, "abc abd", [A, 259, byte_id(" "), 260, byte_id("d")], "abc abd"),
    "merges of characters": (LOW, "low  lowest\n", [13, 11, 14, 8, 9, 11], "low lowest"),
    "unknown characters before the end": (LOW, "xé", [1, 1, 11], ""),
    "a pattern that matches nothing": (replace(LOW, pattern="b*"), "a", [], ""),
    "the longest match, not the fewest": (PIECES, "abcb", [9, 11], "abcb"),
    "an unknown part": (PIECES, "ab abx x a\n bé", [8, 1, 1, 6, 7, 15], "ab a bé"),
    "bytes of a part": (BYTES_OF_PIECES, "abxb ñ", [264, 6 + 120, 267, 6 + 32, 6 + 0xC3, 6 + 0xB1], "abxb ñ"),
    "bytes where only the beginning of a word is known": (BYTES_OF_PIECES, "aab", [262, 266, 267], "aab"),
    "a word of three": (replace(PIECES, longest_word=3), "abc", [9], "abc"),
    "a word of three, where two are most": (replace(PIECES, longest_word=2), "abc", [1], ""),
    "signs of continuation": (SIGNS, "##a ###", [7, 8, 7, 9], "##a ###"),
    "NUL as a piece": (WordPieceTokenizer(("a", "\x00")), "a\x00a", [6, 7, 6], "a \x00 a"),
    "the most probable": (UNIGRAM, "abab", [5, 7, 8], "abab"),
    "a run of unknown characters": (UNIGRAM, "a??b?", [5, 1, 7, 1], "ab"),
    "the sign for a space": (UNIGRAM, " a▁a", [4, 5, 5], " a a"),
    "pieces within what a pattern cuts": (replace(PLAIN, pattern="a|b"), "bab", [7, 6, 7], "bab"),
    "pieces without a pattern": (PLAIN, "bab", [7, 8], "bab"),
    "specials in another order": (UnigramTokenizer(("a",), (-1.0,), special_names=("unk", "bos")), "a?", [2, 0], "a"),
}


@pytest.mark.parametrize(("tokenizer", "text", "ids", "decoded"), EXAMPLES.values(), ids=EXAMPLES)
def test_ids_and_back(tokenizer: Tokenizer, text: str, ids: list[int], decoded: str) -> None:
    assert tokenizer.encode(text).tolist() == ids
    assert tokenizer.decode(ids).decode() == decoded


BYTES_OF_SIGN = [4 + 0xE2, 4 + 0x96, 4 + 0x81]
# Of the normalised text. An end of a word, a space that was put before the text and what a pattern leaves out have none.
OFFSETS: dict[str, tuple[Tokenizer, str, list[int], list[list[int]]]] = {
    "character": (train_characters(["é"], normalization=["nfc"]), "e\u0301\x00", [4, 1], [[0, 2], [2, 3]]),
    "characters and bytes": (
        train_characters(["é"], normalization=["nfc"], byte_fallback=True),
        "e\u0301€",
        [260, *(4 + byte for byte in "€".encode())],
        [[0, 2], [2, 3], [3, 4], [4, 5]],
    ),
    "word": (train_words(["é x"], normalization=["lower", "spaces"]), " É  €  X", [5, 1, 4], [[0, 2], [3, 6], [7, 8]]),
    "wordpiece": (replace(PIECES, normalization=("nfc", "lower")), "AE\u0301 ñA", [6, 15, 1], [[0, 1], [1, 3], [4, 7]]),
    "wordpiece and bytes": (BYTES_OF_PIECES, "ñéa", [6 + 0xC3, 6 + 0xB1, 271, 266], [[0, 1], [1, 2], [2, 4], [4, 5]]),
    "bpe": (replace(MERGES, pattern=r"\d+"), "é1 23", list(map(byte_id, "123")), [[2, 3], [4, 5], [5, 6]]),
    "character-bpe": (NFC_LOW, "e\u0301  low", [1, 7, 8, 9], [[0, 2], [2, 2], [4, 6], [6, 7]]),
    "unigram": (BYTEWISE, "a€b", [261, *(4 + byte for byte in "€".encode()), 263], [[i, i + 1] for i in range(5)]),
    "unigram after a prefix": (BYTEWISE, "ñ", [260, 4 + 0xC3, 4 + 0xB1], [[0, 0], [0, 1], [1, 2]]),
    "unigram, where the sign for a space is no piece": (
        UnigramTokenizer(("a",), (-1.0,), byte_fallback=True, escape=True),
        " a▁",
        [*BYTES_OF_SIGN, 260, *BYTES_OF_SIGN],
        [[0, 1], [1, 1], [1, 1], [1, 2], [2, 3], [3, 4], [4, 5]],
    ),
    "ranks": (RankTokenizer("toy", r"\d+", SINGLE), "12", [49, 50], [[0, 1], [1, 2]]),
}


@pytest.mark.parametrize(("tokenizer", "text", "ids", "offsets"), OFFSETS.values(), ids=OFFSETS)
def test_offsets(tokenizer: Tokenizer, text: str, ids: list[int], offsets: list[list[int]]) -> None:
    encoded = tokenizer.encode_with_offsets(text)
    assert (encoded[0].tolist(), encoded[1].tolist()) == (ids, offsets)


@pytest.mark.parametrize(
    ("tokenizer", "specials"),
    [
        (ByteTokenizer(), Specials(pad=256, bos=257, eos=258)),
        (SORTED, Specials(pad=0, unk=1, bos=2, eos=3)),
        (MERGES, Specials(pad=0, bos=1, eos=2)),
        (LOW, Specials(pad=0, unk=1, bos=2, eos=3)),
        (PIECES, first_specials("pad", "unk", "bos", "eos", "cls", "sep")),
        (replace(UNIGRAM, special_names=("unk", "bos", "eos")), Specials(unk=0, bos=1, eos=2)),
        (RankTokenizer("toy", "gpt2", SINGLE, {"<|endoftext|>": 262, "<|more|>": 264}), Specials(bos=262, eos=262)),
        (RankTokenizer("toy", "gpt2", SINGLE), Specials()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_specials(tokenizer: Tokenizer, specials: Specials) -> None:
    assert tokenizer.specials == specials


def test_the_order_of_ids() -> None:
    assert train_words(TEXTS).words == ("the", "on", "sat", "cat", "dog", "log", "mat")  # frequent first, then by the word
    assert train_words(TEXTS, 7).words == ("the", "on", "sat")
    assert train_characters(["cccbbaad"], 6).alphabet == "ac"
    assert MERGES.table[259:] == (b"bc", b"ab", b"abc")
    assert [UNIGRAM.token_bytes(i).decode() for i in range(11)] == ["", "", "", "", " ", " a", "a", "b", "ab", "é", "c"]
    assert [continues(piece) for piece in SIGNS.pieces] == [False, False, True, True]


@pytest.mark.parametrize("letter", ["a", " "])
def test_one_very_long_word(letter: str) -> None:
    """In time that grows with its length, or this takes minutes: 2^15 letters by 16, 30,000 by 2 or 3."""
    merges = ((byte_id(letter), byte_id(letter)), (259, 259), (260, 260), (261, 261))
    assert BpeTokenizer(merges).encode(letter * 2**15).tolist() == [262] * 2**11
    assert len(UnigramTokenizer((letter, letter * 2), (-1.0, -1.5)).encode(letter * 30_000)) == 15_000
    pieces = WordPieceTokenizer((letter, f"##{letter}", f"##{letter * 3}"), "(?s:.+)", longest_word=30_000)
    assert len(pieces.encode(letter * 30_000)) == 10_002  # one, 9,999 of three, two


RANKED = partial(RankTokenizer, "toy", "gpt2")
test_what_is_no_tokenizer = refused(
    (partial(CharacterTokenizer, "ba"), "ascend by code point"),
    (partial(CharacterTokenizer, "aa"), "ascend by code point"),
    (partial(WordTokenizer, ("a", "")), "entry 1 .* is empty"),
    (partial(WordTokenizer, ("a", "b", "a")), "'a' twice"),
    (partial(WordPieceTokenizer, ("a", "##a", "##a")), "'##a' twice"),
    (partial(BpeTokenizer, ((5, 259),)), "merge 0 joins the ids 5 and 259"),
    (partial(BpeTokenizer, ((2, 5),)), "merge 0 joins the ids 2 and 5"),
    (partial(BpeTokenizer, ((5, 5), (5, 5))), "merge 1 makes a piece that exists already"),
    (partial(BpeTokenizer, ((5, 5), (259, 5), (5, 259))), "merge 2 makes a piece that exists already"),
    (partial(BpeTokenizer, (), alphabet="ab"), "given for characters only"),
    (partial(BpeTokenizer, (), unit="characters", alphabet="aa"), "each character once"),
    (partial(BpeTokenizer, (), pattern="("), "not a regular expression"),
    (partial(UnigramTokenizer, ("a",), ()), "1 pieces have 0 scores"),
    (partial(UnigramTokenizer, ("a", "b"), (-1.0, -inf)), "score of piece 'b' is -inf"),
    (partial(UnigramTokenizer, ("a", "a"), (-1.0, -1.0)), "'a' twice"),
    (partial(UnigramTokenizer, ("a",), (-1.0,), special_names=("pad",)), "needs an UNK"),
    (partial(RANKED, SINGLE | {b"ab": 257}), "the ranks of 257 pieces are 0 to 256"),
    (partial(RANKED, {b"ab": 0}), "256 of the 256 bytes are not pieces, first 0x00"),
    (partial(RANKED, SINGLE, {"<|a|>": 255}), r"the special '<\|a\|>' is 255, not an integer from 256"),
    (partial(RANKED, SINGLE, {"<|a|>": LARGEST_ID + 1}), f"to {LARGEST_ID}"),
    (partial(RANKED, SINGLE, {"<|a|>": 256, "<|b|>": 256}), "two specials have one id"),
    (partial(RankTokenizer, "toy", r"\w*", SINGLE), "matches an empty word"),
    (partial(RankTokenizer, "toy", r"\w+|(?=\.)", SINGLE), "matches an empty word"),
    (partial(BpeTokenizer.from_definition, MERGES.definition() | {"kind": "unigram"}), "of the kind bpe has kind"),
    (partial(BpeTokenizer.from_definition, MERGES.definition() | {"more": 1}), "this one has .*more"),
    (partial(BpeTokenizer.from_definition, MERGES.definition() | {"specials": {"pad": 1}}), "specials over bytes are"),
    (partial(RankTokenizer.from_definition, {"kind": "bpe"}), "of the kind ranks has"),
)
