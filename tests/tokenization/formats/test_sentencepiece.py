"""sentencepiece models behind our protocol."""

import io
from base64 import b64encode
from pathlib import Path

import pytest
import sentencepiece

from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Specials

WORDS = "the cat sat on that mat and another dog ran over the log while others sang"
TEXTS = [" ".join(WORDS.split()[i % 7 : i % 11 + 9]) for i in range(60)]


def trained(size: int = 60, **options) -> bytes:
    """The bytes of a small model; as the library would have it, but for the options."""
    model = io.BytesIO()
    defaults = {"model_type": "unigram", "num_threads": 1, "minloglevel": 2, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=size, **defaults | options
    )
    return model.getvalue()


def tokenizer_of(model: bytes) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(b64encode(model).decode())


PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}


@pytest.fixture(scope="module")
def usual() -> bytes:
    return trained()


@pytest.fixture(scope="module")
def bytewise() -> bytes:
    return trained(320, byte_fallback=True, pad_id=0, unk_id=1, bos_id=2, eos_id=3, **PLAIN)


def test_the_ids_are_those_of_the_library(usual: bytes) -> None:
    tokenizer = tokenizer_of(usual)
    library = sentencepiece.SentencePieceProcessor(model_proto=usual)
    text = "the dog  sat\ton \u2163 logs"
    assert tokenizer.vocabulary_size == library.vocab_size()
    assert tokenizer.encode(text).tolist() == library.encode_as_ids(text)
    assert tokenizer.encode_batch([text, ""])[1].shape == (0,)


def test_specials_are_those_of_the_model(usual: bytes, bytewise: bytes) -> None:
    assert tokenizer_of(usual).specials == Specials(unk=0, bos=1, eos=2)
    assert tokenizer_of(bytewise).specials == Specials(pad=0, unk=1, bos=2, eos=3)
    assert [tokenizer_of(usual).token_bytes(i) for i in range(3)] == [b"", b"", b""]


def test_bytes_and_spaces(bytewise: bytes) -> None:
    tokenizer = tokenizer_of(bytewise)
    assert [tokenizer.token_bytes(4 + value) for value in range(256)] == [bytes([value]) for value in range(256)]
    assert tokenizer.decode(tokenizer.encode(" the  €\x00 ")) == " the  €\x00 ".encode()
    assert any(tokenizer.token_bytes(i).startswith(b" t") for i in range(260, tokenizer.vocabulary_size))


def test_offsets_are_those_of_the_normalized_text(usual: bytes) -> None:
    """NFKC makes IV of the Roman numeral, of which neither letter is known, and white space is removed."""
    ids, offsets = tokenizer_of(usual).encode_with_offsets(" the  \u2163 cat")
    text = b"the IV cat"
    table = [tokenizer_of(usual).token_bytes(i).strip() for i in ids.tolist()]
    assert [text[a:b].strip() for a, b in offsets.tolist()] == [b"IV" if i == 0 else t for i, t in zip(ids, table, strict=True)]
    assert offsets[-1, 1] == len(text)


def test_offsets_of_bytes(bytewise: bytes) -> None:
    tokenizer = tokenizer_of(bytewise)
    ids, offsets = tokenizer.encode_with_offsets("€ the")
    assert b"".join("€ the".encode()[a:b] for a, b in offsets.tolist()) == "€ the".encode()
    assert offsets[:4].tolist() == [[0, 0], [0, 1], [1, 2], [2, 3]]
    assert ids.tolist() == tokenizer.encode("€ the").tolist()


def test_only_a_model_that_keeps_everything_is_lossless(usual: bytes) -> None:
    """Field 5 of the normaliser (3) says that spaces are escaped; the library trains no model that does not."""
    model = trained(320, byte_fallback=True, add_dummy_prefix=False, **PLAIN)
    plain = tokenizer_of(model + bytes([3 << 3 | 2, 2, 5 << 3, 0]))
    assert [tokenizer.lossless for tokenizer in (plain, tokenizer_of(model), tokenizer_of(usual))] == [True, False, False]
    assert plain.decode(plain.encode(" a ▁\n\x00é ")).decode() == " a ▁\n\x00é "


def test_our_segmentation_of_the_same_vocabulary(bytewise: bytes) -> None:
    theirs = tokenizer_of(bytewise)
    ours = theirs.unigram()
    for text in [*TEXTS[:5], "", " ", "tho  €ther"]:
        assert ours.encode(text).tolist() == theirs.encode(text).tolist()
        assert ours.encode_with_offsets(text)[1].tolist() == theirs.encode_with_offsets(text)[1].tolist()
    assert ours.table == theirs.table
    assert ours.specials == theirs.specials


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "leaves text as it is"),
        ({"model_type": "bpe", **PLAIN}, "only a unigram model"),
        ({"user_defined_symbols": ["<x>"], **PLAIN}, "symbols besides"),
        ({"unk_id": 5, **PLAIN}, "another order"),
    ],
)
def test_what_our_segmentation_is_not_made_for(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer_of(trained(**options)).unigram()


def test_a_tokenizer_needs_its_file_no_more(usual: bytes, tmp_path: Path) -> None:
    path = tmp_path / "small.model"
    path.write_bytes(usual)
    tokenizer = SentencePieceTokenizer.from_file(path)
    path.unlink()
    assert SentencePieceTokenizer.from_definition(tokenizer.definition()) == tokenizer == tokenizer_of(usual)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.model cannot be read"):
        SentencePieceTokenizer.from_file(tmp_path / "nowhere.model")


@pytest.mark.parametrize("content", [b"", b"no model", b"\x0a\xff", trained()[:-7]], ids=["empty", "text", "bytes", "cut"])
def test_a_file_that_is_no_model_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.model: not a sentencepiece model"):
        SentencePieceTokenizer.from_file(path)
