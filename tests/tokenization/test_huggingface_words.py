"""Words, characters and WordPieces as files of the library tokenizers."""

import json
from dataclasses import replace

import pytest

from tokenization.character import CharacterTokenizer, train_characters
from tokenization.huggingface import from_huggingface, to_huggingface
from tokenization.tokenizer import Tokenizer
from tokenization.word import WordTokenizer, train_words
from tokenization.wordpiece import WordPieceTokenizer

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors <b>\n"]
WORDS = train_words(CORPUS)
CHARACTERS = train_characters(CORPUS)
PIECES = WordPieceTokenizer(
    ("low", "##er", "##est", ",", "b", "##a", "##n", "<", "##>", "#", "##", "###", "1", "##2", "##34", "<b")
)
TEXT = "low lower,  lowest ban\n<b> 1234 <bos> ##a ### <unk>x dragons"
PATTERNS = pytest.mark.parametrize("pattern", ["words", "whitespace", "gpt2", "gpt4", "o200k"])
DIGITS = pytest.mark.parametrize("single_digits", [False, True])
ALL = pytest.mark.parametrize("tokenizer", [WORDS, CHARACTERS, PIECES], ids=lambda tokenizer: tokenizer.name)


def ids_of_ordinary_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """Where names of specials in it are not taken for specials."""
    found = to_huggingface(tokenizer)
    found.encode_special_tokens = True
    return found.encode(text).ids


@PATTERNS
@DIGITS
@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["word", "wordpiece"])
def test_ids(tokenizer: WordTokenizer | WordPieceTokenizer, pattern: str, single_digits: bool) -> None:
    tokenizer = replace(tokenizer, pattern=pattern, single_digits=single_digits)
    assert ids_of_ordinary_text(tokenizer, TEXT) == tokenizer.encode(TEXT).tolist()


def test_ids_of_characters() -> None:
    assert ids_of_ordinary_text(CHARACTERS, TEXT) == CHARACTERS.encode(TEXT).tolist()


@PATTERNS
def test_a_word_that_begins_with_the_sign_of_continuation(pattern: str) -> None:
    """No piece that continues a word matches there, in the whitespace and published patterns too."""
    tokenizer = replace(PIECES, pattern=pattern)
    assert ids_of_ordinary_text(tokenizer, "##a ##> \n##a") == tokenizer.encode("##a ##> \n##a").tolist()


@pytest.mark.parametrize("longest", [0, 3, 6])
def test_the_longest_word(longest: int) -> None:
    tokenizer = replace(PIECES, longest_word=longest)
    assert to_huggingface(tokenizer).encode("low lower lowest").ids == tokenizer.encode("low lower lowest").tolist()


@pytest.mark.parametrize("steps", [("nfkc", "lower", "spaces"), ("spaces", "nfc")])
@ALL
def test_ids_of_normalised_text(tokenizer: WordTokenizer, steps: tuple) -> None:
    tokenizer = replace(tokenizer, normalization=steps)
    assert to_huggingface(tokenizer).encode("LOW  \uff4cower \t").ids == tokenizer.encode("LOW  \uff4cower \t").tolist()


@ALL
def test_text_comes_back_as_from_ours(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(TEXT)
    assert to_huggingface(tokenizer).decode(ids.tolist()).encode() == tokenizer.decode(ids)


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["word", "wordpiece"])
def test_text_between_white_space_comes_back(tokenizer: WordTokenizer | WordPieceTokenizer) -> None:
    tokenizer = replace(tokenizer, pattern="whitespace")
    ids = tokenizer.encode("low <b> ##a")
    assert to_huggingface(tokenizer).decode(ids.tolist()).encode() == tokenizer.decode(ids)


@ALL
def test_specials_have_their_names(tokenizer: Tokenizer) -> None:
    assert to_huggingface(tokenizer).encode("<bos>low").ids[0] == tokenizer.specials.bos


@PATTERNS
@DIGITS
@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["word", "wordpiece"])
def test_a_file_is_read_as_it_was_written(
    tokenizer: WordTokenizer | WordPieceTokenizer, pattern: str, single_digits: bool
) -> None:
    tokenizer = replace(tokenizer, pattern=pattern, single_digits=single_digits, normalization=("nfc", "spaces"))
    assert from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [CHARACTERS, replace(CHARACTERS, normalization=("nfkc",)), CharacterTokenizer(""), replace(PIECES, longest_word=7)],
    ids=["plain", "normalised", "none", "longest"],
)
def test_other_fields_are_read(tokenizer: Tokenizer) -> None:
    again = from_huggingface(to_huggingface(tokenizer).to_str())
    assert again.digest() == tokenizer.digest()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", {"type": "NFD"}, "normalizer is .*NFD"),
        ("pre_tokenizer", {"type": "Whitespace"}, "no tokenizer.json"),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": []}, "cuts no words"),
        ("post_processor", {"type": "TemplateProcessing"}, "post_processor is"),
        ("decoder", None, "decoder is None"),
        ("added_tokens", [], r"added_tokens is \[\]"),
        ("model", {"type": "WordLevel", "vocab": {"<pad>": 0, "<unk>": 1}, "unk_token": "<unk>"}, "model.vocab is"),
    ],
)
def test_another_file_is_refused(part: str, value: object, message: str) -> None:
    file = json.loads(to_huggingface(WORDS).to_str()) | {part: value}
    with pytest.raises(ValueError, match=message):
        from_huggingface(json.dumps(file))


def test_another_prefix_is_refused() -> None:
    file = json.loads(to_huggingface(PIECES).to_str())
    file["model"]["continuing_subword_prefix"] = "@@"
    with pytest.raises(ValueError, match=r"model\.continuing_subword_prefix is '@@', and only '##'"):
        from_huggingface(json.dumps(file))


def test_another_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a Split by the expression of a pattern"):
        from_huggingface(to_huggingface(WORDS).to_str().replace("Alphabetic", "L"))


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (WordTokenizer(("a",), "[a-z]+"), r"only the patterns .* not '\[a-z\]\+'"),
        (WordTokenizer(("<pad>",)), "'<pad>' is spelled like a special"),
        (WordTokenizer(("a b",), "whitespace"), "'a b' has a space"),
        (WordPieceTokenizer(("\n##a",), "gpt2"), r"'\\n##a' begins like those"),
    ],
)
def test_what_no_file_can_hold(tokenizer: Tokenizer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_huggingface(tokenizer)


def test_a_word_that_is_spelled_like_a_special_between_white_space() -> None:
    tokenizer = WordTokenizer(("<pad>", "<x"), "whitespace")
    assert ids_of_ordinary_text(tokenizer, "<pad> <bos> <x") == [4, 1, 5]
