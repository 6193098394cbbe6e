"""Published tokenizers: the ids of the library, and bytes, places and specials of the tokens."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.piece_bytes import byte_characters, piece_bytes
from leadline.tokenization.formats.published import CONFIG, FILE, PublishedTokenizer, from_huggingface, load_published
from leadline.tokenization.ids import LARGEST_ID
from leadline.tokenization.tokenizer import Specials
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from tests.refused import refused

REAL = Path(__file__).parents[4] / "shared/data/tokenizers"
ODD = (
    "",
    " ",
    " \n\n\t ",
    "Hello, world!  12345 3.14",
    "été e\u0301 \u0301\u0301x \u0301",
    "日本語のテキスト。中文字符",
    "🙂👍🏽\u200d 👩‍👩‍👧",
    "<s>a</s><|begin_of_text|><|im_start|><think>x</think><bos>",
    "▁▁x ▁",
    "\x00\x7f\ufeff\u00a0",
    "नमस्ते ไทย မြန်မာ ﬁ ² ½",
    "x" * 5000 + "word " * 3000,
)
BYTES = train_bpe(["low lower lowest, newest and widest " * 3], 270)
FULL: dict[str, Any] = json.loads(to_huggingface(BYTES).to_str())
THINK = {"content": "<think>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
WITH_THINK = FULL | {"added_tokens": [*FULL["added_tokens"], THINK | {"id": 270}]}
SPACED = {
    "version": "1.0",
    "added_tokens": [THINK | {"id": 0, "content": "<unk>", "special": True}],
    "normalizer": {"type": "Prepend", "prepend": "▁"},
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
    "model": {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "▁": 3, "a": 4, "▁a": 5},
        "merges": ["▁ a"],
    },
}

META: dict[str, dict[str, Any]] = {
    scheme: {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True} for scheme in ("always", "never")
}
META_PIECES = {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4}
OF_WORDS = {
    **{
        f"Metaspace, {scheme}": {
            "version": "1.0",
            "added_tokens": SPACED["added_tokens"],
            "pre_tokenizer": part,
            "decoder": part,
            "model": {"type": "BPE", "unk_token": "<unk>", "vocab": META_PIECES, "merges": ["▁ a"]},
        }
        for scheme, part in META.items()
    },
    "suffix": {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {
            "type": "BPE",
            "end_of_word_suffix": "</w>",
            "vocab": {"a": 0, "b": 1, "a</w>": 2, "ab</w>": 3, "b</w>": 4},
            "merges": ["a b</w>"],
        },
    },
}


def read(file: dict[str, Any], **config: Any) -> PublishedTokenizer:
    return from_huggingface(json.dumps(file), config)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"published tokenizers are not in {REAL}")
@pytest.mark.parametrize(
    ("name", "size", "specials", "lossless"),
    [
        ("llama2", 32000, Specials(unk=0, bos=1, eos=2), False),
        pytest.param("llama3", 128256, Specials(bos=128000, eos=128001), True, marks=pytest.mark.slow),
        pytest.param("qwen3", 151669, Specials(eos=151643), False, marks=pytest.mark.slow),
    ],
)
def test_ids_are_those_of_the_library(name: str, size: int, specials: Specials, lossless: bool) -> None:
    tokenizer = load_published(REAL / name / FILE)
    theirs = Tokenizer.from_file(str(REAL / name / FILE))
    theirs.encode_special_tokens = True
    assert (tokenizer.vocabulary_size, tokenizer.specials, tokenizer.lossless) == (size, specials, lossless)
    for text, ids in zip(ODD, tokenizer.encode_batch(ODD), strict=True):
        assert ids.tolist() == theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids).decode() == theirs.decode(ids.tolist())
        assert tokenizer.decode(ids).decode() == text or not lossless
        located, offsets = tokenizer.encode_with_offsets(text)
        assert located.tolist() == ids.tolist()
        assert (np.diff([0, *offsets.reshape(-1), len(text.encode())]) >= 0).all()


def test_a_post_processor_adds_nothing_and_an_empty_one_is_read() -> None:
    with_bos = to_huggingface(BYTES)
    with_bos.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    assert with_bos.encode("low").ids[0] == 1
    empty = FULL | {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}}
    for tokenizer in (from_huggingface(with_bos.to_str()), read(empty)):
        assert tokenizer.encode("low").tolist() == BYTES.encode("low").tolist()


def test_names_of_specials_are_text_and_other_added_tokens_are_pieces_of_it() -> None:
    tokenizer = read(WITH_THINK)
    assert tokenizer.encode("<eos>low").tolist() == BYTES.encode("<eos>low").tolist()
    assert tokenizer.encode("<think>").tolist() == [270]
    assert (tokenizer.token_bytes(270), tokenizer.token_bytes(BYTES.specials.eos or 0)) == (b"<think>", b"")
    assert tokenizer.decode(tokenizer.encode("<eos>low<think>")) == b"<eos>low<think>"


def test_an_id_that_would_fill_the_memory_is_refused() -> None:
    vocabulary = FULL["model"]["vocab"]
    far = FULL | {"model": FULL["model"] | {"vocab": vocabulary | {max(vocabulary): LARGEST_ID + 1}}}
    with pytest.raises(ValueError, match=f"is {LARGEST_ID + 1}, above {LARGEST_ID}"):
        read(far)


def test_truncation_and_padding_of_a_file_are_left_out() -> None:
    library = to_huggingface(BYTES)
    library.enable_truncation(2)
    library.enable_padding(length=9)
    assert len(from_huggingface(library.to_str()).encode("a b c d")) == 7


def test_specials_are_named_by_the_configuration_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(FULL))
    (tmp_path / CONFIG).write_text(json.dumps({"eos_token": {"content": "<pad>"}, "bos_token": None}))
    assert load_published(tmp_path).specials == Specials(pad=0, eos=0)
    assert load_published(tmp_path / FILE).specials == BYTES.specials
    (tmp_path / CONFIG).write_text("[]")
    with pytest.raises(ValueError, match=rf"{FILE}: {CONFIG} is not an object"):
        load_published(tmp_path)


def test_a_name_of_a_special_that_is_no_text_is_none() -> None:
    assert read(FULL, unk_token=["x"]).specials == read(FULL).specials


def test_a_name_of_a_special_that_is_an_ordinary_piece_is_none() -> None:
    added = [token for token in FULL["added_tokens"] if token["content"] != "<eos>"]
    assert read(FULL | {"added_tokens": added}).specials.eos is None


def test_a_space_before_the_text_is_no_part_of_it() -> None:
    tokenizer = read(SPACED)
    ids, offsets = tokenizer.encode_with_offsets("aé")
    assert ids.tolist() == [5, 1, 2]
    assert offsets.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert [tokenizer.token_bytes(token) for token in range(6)] == [b"", b"\xc3", b"\xa9", b" ", b"a", b" a"]
    assert tokenizer.decode(ids) == "aé".encode()


@pytest.mark.parametrize(
    ("name", "pieces", "offsets"),
    [
        ("Metaspace, always", ["", " ", "a", "b", " a"], [[0, 1], [1, 2], [2, 3], [3, 4], [4, 6]]),
        ("Metaspace, never", ["", " ", "a", "b", " a"], [[0, 1], [1, 2], [2, 3], [3, 4], [4, 6]]),
        ("suffix", ["a", "b", "a ", "ab ", "b "], [[0, 1], [2, 3], [5, 6]]),
    ],
)
def test_marks_of_words_are_spaces_inside_a_text_alone(name: str, pieces: list[str], offsets: list[list[int]]) -> None:
    tokenizer, theirs = read(OF_WORDS[name]), Tokenizer.from_str(json.dumps(OF_WORDS[name]))
    assert [tokenizer.token_bytes(token).decode() for token in range(5)] == pieces
    assert tokenizer.encode_with_offsets("a b  a")[1].tolist() == offsets
    for text in ("a b  a", " a", "a ", "ab ba"):
        ids = tokenizer.encode(text).tolist()
        assert ids == theirs.encode(text).ids
        assert tokenizer.decode(ids).decode() == theirs.decode(ids)


def test_tokens_are_located_to_the_character_where_text_is_normalized() -> None:
    """e and an acute become é, whose two bytes are two tokens of one place."""
    tokenizer = read(FULL | {"normalizer": {"type": "NFC"}})
    ids, offsets = tokenizer.encode_with_offsets("ae\u0301")
    assert tokenizer.decode(ids) == "a\u00e9".encode()
    assert offsets.tolist() == [[0, 1], [1, 2], [2, 2]]


@pytest.mark.parametrize(
    ("change", "lossless"),
    [
        ({}, True),
        ({"normalizer": {"type": "Sequence", "normalizers": []}}, True),
        ({"normalizer": {"type": "NFC"}}, False),
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}, False),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, False),
        ({"added_tokens": [*FULL["added_tokens"], THINK | {"id": 270, "lstrip": True}]}, False),
    ],
)
def test_what_changes_text_is_not_lossless(change: dict, lossless: bool) -> None:
    assert read(FULL | change).lossless == lossless


def test_without_every_byte_it_is_not_lossless() -> None:
    vocabulary = {piece: token for piece, token in FULL["model"]["vocab"].items() if piece != "é"}
    assert not read(FULL | {"model": FULL["model"] | {"vocab": vocabulary, "merges": []}}).lossless


def test_words_are_joined_by_spaces() -> None:
    pieces = to_huggingface(WordPieceTokenizer(("low", "##er", "##", "new")))
    tokenizer = from_huggingface(pieces.to_str())
    ids = tokenizer.encode("lower new ? low")
    assert tokenizer.decode(ids) == b"lower new low"
    assert b"".join(map(tokenizer.token_bytes, ids.tolist())) == b"lowernewlow"


def test_it_is_copied_without_what_is_made_from_its_file() -> None:
    tokenizer = read(FULL)
    copied = pickle.loads(pickle.dumps(tokenizer))
    assert copied == tokenizer
    assert vars(copied).keys() == {"file", "pad", "unk", "bos", "eos"}
    assert copied.encode("low").tolist() == tokenizer.encode("low").tolist()


def test_pieces_of_bytes_are_those_of_the_library() -> None:
    characters = byte_characters()
    assert len(set(characters.values())) == 256
    assert [characters[byte] for byte in (ord("a"), ord(" "), 0, 0xAD, 0xFF)] == ["a", "Ġ", "Ā", "Ń", "ÿ"]
    assert piece_bytes("Ġé", [{"type": "ByteLevel"}]) == b" \xe9"
    assert piece_bytes("<｜x", [{"type": "ByteLevel"}]) == "<｜x".encode()  # noqa: RUF001


DEEP = "[" * 10**5
test_what_cannot_be_read = refused(
    *((lambda text=text: from_huggingface(text), r"not a tokenizer\.json") for text in ("", "[]", "{}", '{"model": 1}', DEEP)),
    (lambda: read(FULL | {"model": FULL["model"] | {"type": "Other"}}), "not a tokenizer.json that the library"),
    (lambda: read(FULL | {"model": FULL["model"] | {"dropout": 0.1}}), "model.dropout is 0.1: ids would be random"),
    (lambda: read(FULL | {"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}}), "CTC"),
)
