"""Files of the library tokenizers, written and read. tests/oracles compares their ids on more text."""

import json
from dataclasses import replace

import pytest

from tokenization.bpe import BpeTokenizer, train_bpe
from tokenization.byte import ByteTokenizer
from tokenization.huggingface import from_huggingface, to_huggingface
from tokenization.huggingface_bpe import byte_characters

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2]
BYTES = train_bpe(CORPUS, 280, pattern="gpt4", single_digits=True, normalization=["nfc", "lower", "spaces", "nfkc"])
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words")
TEXT = "Low lower, l\u00f6we\u0301st! \x00 12 a_b"


@pytest.mark.parametrize("single_digits", [False, True])
@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "o200k", "words", "whitespace", r"[a-z]+| \w"])
def test_ids_of_bytes(pattern: str, single_digits: bool) -> None:
    tokenizer = replace(BYTES, pattern=pattern, single_digits=single_digits)
    assert to_huggingface(tokenizer).encode(TEXT).ids == tokenizer.encode(TEXT).tolist()


@pytest.mark.parametrize("single_digits", [False, True])
@pytest.mark.parametrize("pattern", ["words", "whitespace"])
def test_ids_of_characters(pattern: str, single_digits: bool) -> None:
    tokenizer = replace(CHARACTERS, pattern=pattern, single_digits=single_digits, normalization=("nfkc", "spaces"))
    assert to_huggingface(tokenizer).encode(TEXT).ids == tokenizer.encode(TEXT).tolist()


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS], ids=["bytes", "characters"])
def test_text_comes_back_as_from_ours(tokenizer: BpeTokenizer) -> None:
    ids = tokenizer.encode("low,  lowest ban")
    assert to_huggingface(tokenizer).decode(ids.tolist()).encode() == tokenizer.decode(ids)


def test_normalising_can_be_left_out() -> None:
    tokenizer = replace(BYTES, normalization=("lower",))
    assert to_huggingface(tokenizer, normalize=False).encode("LOW").ids != tokenizer.encode("LOW").tolist()


def test_specials_keep_their_ids_and_are_taken_from_text() -> None:
    found = to_huggingface(BYTES)
    assert found.encode("<bos>low").ids[0] == 1
    assert found.decode([1, *BYTES.encode("low").tolist(), 2]) == "low"


@pytest.mark.parametrize("steps", [(), ("nfc",), ("spaces", "lower"), ("nfkc", "spaces")])
@pytest.mark.parametrize("pattern", ["gpt2", "words", r"[a-z]+| \w"])
def test_a_file_is_read_as_it_was_written(pattern: str, steps: tuple) -> None:
    tokenizer = replace(BYTES, pattern=pattern, normalization=steps)
    assert from_huggingface(to_huggingface(tokenizer).to_str()) == tokenizer


def test_merges_may_be_strings() -> None:
    """As files before 2024 have them."""
    file = json.loads(to_huggingface(BYTES).to_str())
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    assert from_huggingface(json.dumps(file)) == BYTES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "Other"}, "model.type is 'Other'"),
        ({"dropout": 0.1}, "model.dropout is 0.1"),
        ({"byte_fallback": True}, "model.byte_fallback is True"),
        ({"ignore_merges": True}, "model.ignore_merges is True"),
        ({"merges": []}, "the size of model.vocab is 280, and only 259"),
        ({"merges": [["Q", "QQ"]]}, r"no tokenizer\.json .*'QQ'"),
        ({"merges": ["Q"]}, r"a merge is \['Q'\], and only 'a pair'"),
    ],
)
def test_another_model_is_refused(change: dict, message: str) -> None:
    file = json.loads(to_huggingface(BYTES).to_str())
    file["model"] |= change
    with pytest.raises(ValueError, match=message):
        from_huggingface(json.dumps(file))


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BETWEEN = {"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "StripAccents"}}, "normalizer is .*StripAccents"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer is .*Whitespace"),
        ({"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, "pre_tokenizer is .*ByteLevel"),
        ({"pre_tokenizer": BYTE_LEVEL}, "pre_tokenizer is .*one Split by a Regex"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BETWEEN, BYTE_LEVEL]}}, "nothing between"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}}, r"pre_tokenizer is \[\]"),
        ({"post_processor": {"type": "TemplateProcessing"}}, "post_processor is .*Template"),
        ({"model": None}, r"no tokenizer\.json"),
        ({"added_tokens": [{"id": 9, "content": "low"}]}, r"added_tokens is \['low'\]"),
    ],
)
def test_another_file_is_refused(change: dict, message: str) -> None:
    file = json.loads(to_huggingface(BYTES).to_str()) | change
    with pytest.raises(ValueError, match=message):
        from_huggingface(json.dumps(file))


def test_other_ids_are_refused() -> None:
    file = to_huggingface(BYTES).to_str().replace('"<pad>":0', '"<pad>":1').replace('"<bos>":1', '"<bos>":0')
    with pytest.raises(ValueError, match=r"model\.vocab\['<pad>'\] is 1, and only 0"):
        from_huggingface(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 1}'])
def test_what_is_no_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        from_huggingface(text)


def test_what_has_no_file() -> None:
    with pytest.raises(ValueError, match="a byte tokenizer has no form"):
        to_huggingface(ByteTokenizer())
    with pytest.raises(ValueError, match="only the patterns whitespace and words"):
        to_huggingface(replace(CHARACTERS, pattern="gpt2"))


def test_a_piece_that_is_spelled_like_a_special() -> None:
    """<eos> three times, and one by one its pairs are merged: the last merge makes the name."""
    tokenizer = train_bpe(["<eos> " * 3], 259 + 4, pattern="whitespace")
    with pytest.raises(ValueError, match=r"'<eos>' is spelled like a special, .* shorten to 262 ids"):
        to_huggingface(tokenizer)
    assert to_huggingface(tokenizer.shortened(262)).get_vocab_size() == 262


def test_characters_of_bytes_are_those_of_the_library() -> None:
    known = byte_characters()
    assert len(set(known.values())) == 256
    assert (known[ord("a")], known[ord(" ")], known[0], known[0xAD], known[0xFF]) == ("a", "Ġ", "Ā", "Ń", "ÿ")
