"""Unigram tokenizers as files of the library tokenizers."""

import json
from dataclasses import replace

import pytest

from tokenization.huggingface import from_huggingface, to_huggingface
from tokenization.unigram import UnigramTokenizer

PIECES = {"▁": -3.0, "▁a": -2.0, " ": -3.0, " a": -2.0, "a": -1.5, "b": -2.5, "ab": -3.5, "1": -4.0, "12": -4.5, "<": -6.0}
PLAIN = UnigramTokenizer(tuple(PIECES), tuple(PIECES.values()), pattern="gpt2")
NO_SPACES = {piece: score for piece, score in PIECES.items() if " " not in piece}
WHOLE = UnigramTokenizer(tuple(NO_SPACES), tuple(NO_SPACES.values()), escape=True)
TEXT = " abab é??é 12 a\n<bos> <0x41> ▁b"
CHOICE = {
    "byte_fallback": pytest.mark.parametrize("byte_fallback", [False, True]),
    "escape": pytest.mark.parametrize("escape", [False, True]),
    "dummy_prefix": pytest.mark.parametrize("dummy_prefix", [False, True]),
}


def ids_of_ordinary_text(tokenizer: UnigramTokenizer, text: str) -> list[int]:
    found = to_huggingface(tokenizer)
    found.encode_special_tokens = True
    return found.encode(text).ids


@CHOICE["byte_fallback"]
@CHOICE["escape"]
@CHOICE["dummy_prefix"]
@pytest.mark.parametrize("pattern", ["words", "gpt2", "gpt4", "o200k"])
def test_ids(pattern: str, byte_fallback: bool, escape: bool, dummy_prefix: bool) -> None:
    fields = {"pattern": pattern, "byte_fallback": byte_fallback, "escape": escape, "dummy_prefix": dummy_prefix}
    tokenizer = replace(PLAIN, **fields)
    assert ids_of_ordinary_text(tokenizer, TEXT) == tokenizer.encode(TEXT).tolist()
    assert from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


@CHOICE["byte_fallback"]
@CHOICE["dummy_prefix"]
@pytest.mark.parametrize("pattern", [None, "whitespace"])
def test_ids_where_a_word_may_have_the_name_of_a_special(pattern: str | None, byte_fallback: bool, dummy_prefix: bool) -> None:
    tokenizer = replace(WHOLE, pattern=pattern, byte_fallback=byte_fallback, dummy_prefix=dummy_prefix, single_digits=True)
    assert ids_of_ordinary_text(tokenizer, TEXT) == tokenizer.encode(TEXT).tolist()
    assert from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


def test_of_equal_sums_the_first_is_kept() -> None:
    """0.1 + 0.2 + 0.3 is greater than 0.1 + (0.2 + 0.3) in float64, and both keep the greater."""
    scores = {"a": -0.1, "b": -0.2, "c": -0.3, "bc": -0.5, "ab": -0.3, "abc": -0.6}
    tokenizer = UnigramTokenizer(tuple(scores), tuple(scores.values()), pattern="words")
    for text in ("abc", "abcabc", "bc", "cab", "aabbcc"):
        assert to_huggingface(tokenizer).encode(text).ids == tokenizer.encode(text).tolist()


@pytest.mark.parametrize("tokenizer", [replace(WHOLE, dummy_prefix=True, byte_fallback=True), PLAIN], ids=["whole", "plain"])
def test_text_comes_back_as_from_ours(tokenizer: UnigramTokenizer) -> None:
    ids = tokenizer.encode(TEXT)
    assert to_huggingface(tokenizer).decode(ids.tolist()).encode() == tokenizer.decode(ids)


def test_what_an_unknown_character_costs() -> None:
    """ab and an unknown c have -1 - 30 nats, a and bc have -31.5; a c that costs one nat more would turn this round."""
    tokenizer = UnigramTokenizer(("ab", "a", "bc"), (-1.0, -20.0, -11.5), pattern="words")
    assert to_huggingface(tokenizer).encode("abc").ids == tokenizer.encode("abc").tolist() == [4, 1]


def test_specials_in_another_order() -> None:
    tokenizer = replace(PLAIN, special_names=("bos", "unk"), normalization=("nfkc", "spaces"))
    assert to_huggingface(tokenizer).encode("a?").ids == tokenizer.encode("a?").tolist()
    assert from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


def test_no_pieces() -> None:
    tokenizer = UnigramTokenizer((), (), byte_fallback=True, pattern="gpt2")
    assert to_huggingface(tokenizer).encode("é").ids == tokenizer.encode("é").tolist()


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (UnigramTokenizer(("a",), (-1.0,)), "only if it escapes spaces"),
        (UnigramTokenizer(("a",), (-1.0,), pattern="[a-z]+"), "only the patterns"),
        (UnigramTokenizer(("a",), (1.0,), pattern="gpt2"), "the least score is 1.0"),
        (UnigramTokenizer(("a b",), (-1.0,), escape=True), "'a b' has a space"),
        (UnigramTokenizer(("<0x41>",), (-1.0,), byte_fallback=True, pattern="gpt2"), "'<0x41>' is spelled like"),
    ],
)
def test_what_no_file_can_hold(tokenizer: UnigramTokenizer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_huggingface(tokenizer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unk_id": 0}, r"model\.unk_id is 0, and only 1"),
        ({"vocab": [["<unk>", 0.0]]}, r"model\.vocab is"),
        ({"byte_fallback": None}, r"no tokenizer\.json"),
        ({"fuse_unk": False}, r"model\.fuse_unk is False"),
    ],
)
def test_another_model_is_refused(change: dict, message: str) -> None:
    file = json.loads(to_huggingface(PLAIN).to_str())
    file["model"] |= change
    with pytest.raises(ValueError, match=message):
        from_huggingface(json.dumps(file))
