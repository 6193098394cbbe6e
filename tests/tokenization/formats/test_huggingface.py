"""Files of the tokenizers library, written and read. tests/oracles compares their ids on more text."""

import json
from dataclasses import replace
from itertools import product

import pytest

from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer, train_characters
from leadline.tokenization.formats.huggingface import from_huggingface, to_huggingface
from leadline.tokenization.formats.huggingface_bpe import byte_characters
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

NAMED = ("words", "whitespace", "gpt2", "gpt4", "o200k")
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
}


def is_as_written(tokenizer: Tokenizer) -> bool:
    """Whether the file of a tokenizer is that tokenizer; one of BPE over characters is only written."""
    return tokenizer.name == "character-bpe" or from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


def ordinary_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The library's ids where the names of specials are ordinary text."""
    converted = to_huggingface(tokenizer)
    converted.encode_special_tokens = True
    return converted.encode(text).ids


@pytest.mark.parametrize("tokenizer", VARIANTS.values(), ids=VARIANTS)
def test_ids_are_equal_and_the_file_is_read_as_it_was_written(tokenizer: Tokenizer) -> None:
    for text in (TEXT, "##a ##> \n##a", "<pad> <bos> <x", " abab é 12 a\n"):
        assert ordinary_ids(tokenizer, text) == tokenizer.encode(text).tolist()
    assert is_as_written(tokenizer)


@pytest.mark.parametrize("steps", [("nfc",), ("nfkc", "lower", "spaces"), ("spaces", "nfc", "lower")])
@EACH
def test_normalization_is_part_of_the_file(tokenizer: WordTokenizer, steps: tuple) -> None:
    tokenizer = replace(tokenizer, normalization=steps)
    text = "LOW  \uff4cower \te\u0301"
    assert ordinary_ids(tokenizer, text) == tokenizer.encode(text).tolist()
    assert is_as_written(tokenizer)


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


def test_merges_may_be_strings() -> None:
    """As in files before 2024."""
    file = json.loads(to_huggingface(BYTES).to_str())
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    assert from_huggingface(json.dumps(file)) == BYTES


BYTES_WITH_OTHER_IDS = to_huggingface(BYTES).get_vocab() | {"<pad>": 1, "<bos>": 0}
OTHER_MODELS = [
    (BYTES, {"type": "Other"}, "model.type is 'Other'"),
    (BYTES, {"dropout": 0.1}, "model.dropout is 0.1"),
    (BYTES, {"byte_fallback": True}, "model.byte_fallback is True"),
    (BYTES, {"ignore_merges": True}, "model.ignore_merges is True"),
    (BYTES, {"merges": []}, "the size of model.vocab is 280, and only 259"),
    (BYTES, {"vocab": BYTES_WITH_OTHER_IDS}, r"model\.vocab\['<pad>'\] is 1, and only 0"),
    (BYTES, {"merges": [["Q", "QQ"]]}, r"not a tokenizer\.json .*'QQ'"),
    (BYTES, {"merges": ["Q"]}, r"a merge is \['Q'\], and only 'a pair'"),
    (PIECES, {"continuing_subword_prefix": "@@"}, r"model\.continuing_subword_prefix is '@@', and only '##'"),
    (UNIGRAM, {"unk_id": 0}, r"model\.unk_id is 0, and only 1"),
    (UNIGRAM, {"vocab": [["<unk>", 0.0]]}, r"model\.vocab is"),
    (UNIGRAM, {"byte_fallback": None}, r"not a tokenizer\.json"),
    (UNIGRAM, {"fuse_unk": False}, r"model\.fuse_unk is False"),
    (WORDS, {"vocab": {"<pad>": 0, "<unk>": 1}}, "model.vocab is"),
]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BETWEEN = {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}
HUGE = {"type": "Split", "pattern": {"Regex": "x{99999999}"}, "behavior": "Removed", "invert": True}


@pytest.mark.parametrize(
    ("tokenizer", "change", "message"),
    [
        (BYTES, {"normalizer": {"type": "StripAccents"}}, "normalizer is .*StripAccents"),
        (BYTES, {"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer is .*Whitespace"),
        (BYTES, {"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, "pre_tokenizer is .*ByteLevel"),
        (BYTES, {"pre_tokenizer": BYTE_LEVEL}, "pre_tokenizer is .*one Split by a Regex"),
        (BYTES, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BETWEEN, BYTE_LEVEL]}}, "nothing between"),
        (BYTES, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [HUGE, BYTE_LEVEL]}}, "expand to more than"),
        (BYTES, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}}, r"pre_tokenizer is \[\]"),
        (BYTES, {"post_processor": {"type": "TemplateProcessing"}}, "post_processor is .*Template"),
        (BYTES, {"model": None}, r"not a tokenizer\.json"),
        (BYTES, {"added_tokens": [{"id": 9, "content": "low"}]}, r"added_tokens is \['low'\]"),
        (WORDS, {"normalizer": {"type": "NFD"}}, "normalizer is .*NFD"),
        (WORDS, {"pre_tokenizer": {"type": "Whitespace"}}, "not a tokenizer.json"),
        (WORDS, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}}, "cuts no words"),
        (WORDS, {"post_processor": {"type": "TemplateProcessing"}}, "post_processor is"),
        (WORDS, {"decoder": None}, "decoder is None"),
        (WORDS, {"added_tokens": []}, r"added_tokens is \[\]"),
        *((tokenizer, {"model": change}, message) for tokenizer, change, message in OTHER_MODELS),
    ],
)
def test_another_file_is_refused(tokenizer: Tokenizer, change: dict, message: str) -> None:
    file = json.loads(to_huggingface(tokenizer).to_str())
    model = change.get("model") and file["model"] | change["model"]
    with pytest.raises(ValueError, match=message):
        from_huggingface(json.dumps(file | change | ({"model": model} if "model" in change else {})))


def test_another_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a Split by the expression of a named pattern"):
        from_huggingface(to_huggingface(WORDS).to_str().replace("Alphabetic", "L"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 1}', "[" * 10**5], ids=["empty", "list", "object", "one", "deep"])
def test_what_is_no_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a tokenizer\.json"):
        from_huggingface(text)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (ByteTokenizer(), "a byte tokenizer cannot be written"),
        (replace(CHARACTERS, pattern="gpt2"), "only the patterns whitespace and words"),
        (WordTokenizer(("a",), "[a-z]+"), r"only the patterns .* not '\[a-z\]\+'"),
        (WordTokenizer(("<pad>",)), "'<pad>' is spelled like a special"),
        (WordTokenizer(("a b",), "whitespace"), "'a b' has a space"),
        (WordPieceTokenizer(("\n##a",), "gpt2"), r"'\\n##a' begins like those"),
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


def test_characters_of_bytes_are_those_of_the_library() -> None:
    characters = byte_characters()
    assert len(set(characters.values())) == 256
    assert [characters[byte] for byte in (ord("a"), ord(" "), 0, 0xAD, 0xFF)] == ["a", "Ġ", "Ā", "Ń", "ÿ"]
