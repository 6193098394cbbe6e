"""Our tokenizers as files of the tokenizers library, which are read again. tests/oracles compares their ids on more text."""

from dataclasses import replace
from itertools import product

import pytest

from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer, train_characters
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import from_huggingface
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.word import WordTokenizer, train_words
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors <b>\n" * 2]
TEXT = "low Lower,  lo\u0308west ban\n<b> 1234 <bos> ##a ### <0x41> ▁b <unk>x é??é \x00 a_b"
BYTES = train_bpe(CORPUS, 280, pattern="gpt4")
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")
WORDS = train_words(CORPUS)
ALPHABET = train_characters(CORPUS)
PIECES = WordPieceTokenizer(
    ("low", "##er", "##est", ",", "b", "##a", "##n", "<", "##>", "#", "##", "###", "1", "##2", "##34", "<b")
)
SCORES = {"▁": -3.0, "▁a": -2.0, " ": -3.0, " a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5, "1": -4.0, "12": -4.5, "<": -6.0}
UNIGRAM = UnigramTokenizer(tuple(SCORES), tuple(SCORES.values()), pattern="gpt2")
NO_SPACES = {piece: score for piece, score in SCORES.items() if " " not in piece}
WHOLE = UnigramTokenizer(tuple(NO_SPACES), tuple(NO_SPACES.values()), escape=True)
KINDS = {"bpe": BYTES, "character-bpe": CHARACTERS, "word": WORDS, "character": ALPHABET, "wordpiece": PIECES}
KINDS |= {"unigram": UNIGRAM, "unigram, one word": replace(WHOLE, dummy_prefix=True, byte_fallback=True)}
EACH = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS)

NAMED = ("words", "whitespace", "gpt2", "gpt4", "cl100k", "o200k")
SWITCHES = [dict(zip(("byte_fallback", "escape", "dummy_prefix"), on, strict=True)) for on in product((False, True), repeat=3)]
VARIANTS = {
    **{f"bpe {pattern}": replace(BYTES, pattern=pattern) for pattern in (*NAMED, r"[a-z]+| \w")},
    **{f"word {pattern}": replace(WORDS, pattern=pattern) for pattern in NAMED},
    **{f"wordpiece {pattern}": replace(PIECES, pattern=pattern) for pattern in NAMED},
    **{f"wordpiece of {longest} characters": replace(PIECES, longest_word=longest) for longest in (0, 3, 6)},
    **{f"unigram {on}": replace(UNIGRAM, **on) for on in SWITCHES},
    **{f"unigram {pattern}": replace(UNIGRAM, pattern=pattern) for pattern in ("words", "gpt4", "o200k")},
    **{
        f"unigram {pattern} {on}": replace(WHOLE, pattern=pattern, **on)
        for pattern, on in product((None, "whitespace"), SWITCHES)
        if on["escape"]
    },
}
VARIANTS |= {f"character-bpe {pattern}": replace(CHARACTERS, pattern=pattern) for pattern in ("words", "whitespace")}
VARIANTS |= {f"{name}, digits": replace(tokenizer, single_digits=True) for name, tokenizer in VARIANTS.items()}
VARIANTS |= {
    "no characters": CharacterTokenizer(""),
    "no pieces": UnigramTokenizer((), (), byte_fallback=True, pattern="gpt2"),
    "other specials": replace(UNIGRAM, special_names=("bos", "unk")),
    "words like specials": WordTokenizer(("<pad>", "<x"), "whitespace"),
    "character": ALPHABET,
    "byte": ByteTokenizer(),
}


def check_as_written(tokenizer: Tokenizer, *texts: str) -> None:
    """The file of a tokenizer gives its ids and means its bytes."""
    published = from_huggingface(to_huggingface(tokenizer).to_str())
    assert published.vocabulary_size == tokenizer.vocabulary_size
    for name in ("pad", "unk", "bos", "eos"):
        assert getattr(published.specials, name) == getattr(tokenizer.specials, name)
    for token in range(tokenizer.vocabulary_size):
        assert published.token_bytes(token) == tokenizer.token_bytes(token)
    for text in texts:
        ids = tokenizer.encode(text)
        assert published.encode(text).tolist() == ids.tolist()
        assert published.decode(ids) == tokenizer.decode(ids)


def ordinary_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The library's ids where the names of specials are ordinary text."""
    converted = to_huggingface(tokenizer)
    converted.encode_special_tokens = True
    return converted.encode(text).ids


@pytest.mark.parametrize("tokenizer", VARIANTS.values(), ids=VARIANTS)
def test_ids_are_equal_and_the_file_is_read_as_it_was_written(tokenizer: Tokenizer) -> None:
    check_as_written(tokenizer, TEXT, "##a ##> \n##a", "<pad> <bos> <x", " abab é 12 a\n")


@pytest.mark.parametrize("steps", [("nfc",), ("nfkc", "lower", "spaces"), ("spaces", "nfc", "lower")])
@EACH
def test_normalization_is_part_of_the_file(tokenizer: WordTokenizer, steps: tuple) -> None:
    tokenizer = replace(tokenizer, normalization=steps)
    check_as_written(tokenizer, "LOW  \uff4cower \te\u0301")


def test_normalization_can_be_left_out() -> None:
    tokenizer = replace(BYTES, normalization=("lower",))
    assert to_huggingface(tokenizer, normalize=False).encode("LOW").ids != tokenizer.encode("LOW").tolist()


@EACH
def test_text_is_decoded_as_by_ours_and_specials_are_taken_from_text(tokenizer: WordTokenizer) -> None:
    assert to_huggingface(tokenizer).encode("<bos>low").ids[0] == tokenizer.specials.bos
    for text in ("low,  lowest ban", "low <b> ##a", TEXT.replace("\x00", "")):
        for cut in (tokenizer, replace(tokenizer, pattern="whitespace")) if tokenizer in (WORDS, PIECES) else (tokenizer,):
            ids = cut.encode(text)
            assert to_huggingface(cut).decode(ids.tolist()).encode() == cut.decode(ids)


EQUAL = {"a": -0.1, "b": -0.2, "c": -0.3, "bc": -0.5, "ab": -0.3, "abc": -0.6}
COSTLY = {"ab": -1.0, "a": -20.0, "bc": -11.5}


@pytest.mark.parametrize(
    ("scores", "text"), [(EQUAL, text) for text in ("abc", "abcabc", "bc", "cab", "aabbcc")] + [(COSTLY, "abc")]
)
def test_ties_and_the_cost_of_unknown_characters(scores: dict[str, float], text: str) -> None:
    """0.1 + 0.2 + 0.3 is greater than 0.1 + (0.2 + 0.3) in float64, and both keep the greater, of equals the first.

    ab and an unknown c have -1 - 30 nats, a and bc -31.5: a c that cost one nat more would turn this round.
    """
    tokenizer = UnigramTokenizer(tuple(scores), tuple(scores.values()), pattern="words")
    assert ordinary_ids(tokenizer, text) == tokenizer.encode(text).tolist()


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (FastTokenizer(BYTES), "a bpe tokenizer cannot be written"),
        (replace(CHARACTERS, pattern="gpt2"), "only the patterns whitespace and words"),
        (WordTokenizer(("a",), "[a-z]+"), r"only the patterns .* not '\[a-z\]\+'"),
        (WordTokenizer(("<pad>",)), "'<pad>' is spelled like a special"),
        (WordTokenizer(("a b",), "whitespace"), "'a b' has a space"),
        (WordPieceTokenizer(("\n##a",), "gpt2"), r"'\\n##a' begins like those"),
        (WordPieceTokenizer(("a",), byte_fallback=True), "wordpiece tokenizer knows no byte fallback"),
        (CharacterTokenizer("a", byte_fallback=True), "character tokenizer knows no byte fallback"),
        (UnigramTokenizer(("a",), (-1.0,)), "only if it escapes spaces"),
        (UnigramTokenizer(("a",), (-1.0,), pattern="[a-z]+"), "only the patterns"),
        (UnigramTokenizer(("a",), (1.0,), pattern="gpt2"), "the least score is 1.0"),
        (UnigramTokenizer(("a b",), (-1.0,), escape=True), "'a b' has a space"),
        (UnigramTokenizer(("<0x41>",), (-1.0,), byte_fallback=True, pattern="gpt2"), "'<0x41>' is spelled like"),
    ],
)
def test_what_no_file_can_hold(tokenizer: Tokenizer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_huggingface(tokenizer)


def test_a_merge_that_makes_the_name_of_a_special() -> None:
    """The last merge of <eos> makes it."""
    tokenizer = train_bpe(["<eos> " * 3], 259 + 4, pattern="whitespace")
    with pytest.raises(ValueError, match=r"'<eos>' is spelled like a special, .* shorten to 262 ids"):
        to_huggingface(tokenizer)
    assert to_huggingface(tokenizer.shortened(262)).get_vocab_size() == 262
