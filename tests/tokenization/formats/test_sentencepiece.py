"""sentencepiece models under our protocol."""

from pathlib import Path

import pytest
import sentencepiece

from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.tokenizer import Specials
from tests.tokenization.sentencepiece_models import BYTEWISE, PLAIN, tokenizer_of, trained_bytes, trained_model

WORDS = "the cat sat on that mat and another dog ran over the log while others sang"
TEXTS = [" ".join(WORDS.split()[i % 7 : i % 11 + 9]) for i in range(60)]
MODEL = trained_bytes(TEXTS, 60)
USUAL = tokenizer_of(MODEL)
OF_BYTES = trained_model(TEXTS, 320, **BYTEWISE, **PLAIN)


def test_specials_bytes_and_spaces() -> None:
    assert USUAL.specials == Specials(unk=0, bos=1, eos=2)
    assert OF_BYTES.specials == Specials(pad=0, unk=1, bos=2, eos=3)
    assert [OF_BYTES.token_bytes(4 + value) for value in range(256)] == [bytes([value]) for value in range(256)]
    assert OF_BYTES.decode(OF_BYTES.encode(" the  €\x00 ")) == " the  €\x00 ".encode()
    assert any(OF_BYTES.token_bytes(i).startswith(b" t") for i in range(260, OF_BYTES.vocabulary_size))


def test_ids_are_those_of_the_library_and_offsets() -> None:
    """NFKC makes IV of the Roman numeral, of which neither letter is known, and white space is removed."""
    ids, offsets = USUAL.encode_with_offsets(" the  \u2163 cat")
    assert ids.tolist() == sentencepiece.SentencePieceProcessor(model_proto=MODEL).encode_as_ids(" the  \u2163 cat")
    text = b"the IV cat"
    expected = [b"IV" if i == 0 else USUAL.token_bytes(i).strip() for i in ids.tolist()]
    assert [text[a:b].strip() for a, b in offsets.tolist()] == expected
    assert offsets[-1, 1] == len(text)
    ids, offsets = OF_BYTES.encode_with_offsets("€ the")
    assert offsets[:4].tolist() == [[0, 0], [0, 1], [1, 2], [2, 3]]
    assert OF_BYTES.unigram().encode("€ the").tolist() == ids.tolist()


def test_only_a_model_that_keeps_everything_is_lossless() -> None:
    """Field 5 of the normaliser (3) says that spaces are escaped; the library trains no model that does not."""
    model = trained_bytes(TEXTS, 320, byte_fallback=True, add_dummy_prefix=False, **PLAIN)
    plain = tokenizer_of(model + bytes([3 << 3 | 2, 2, 5 << 3, 0]))
    assert [tokenizer.lossless for tokenizer in (plain, tokenizer_of(model), USUAL)] == [True, False, False]
    assert plain.decode(plain.encode(" a ▁\n\x00é ")).decode() == " a ▁\n\x00é "


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
        trained_model(TEXTS, 60, **options).unigram()


def test_a_tokenizer_needs_its_file_no_more(tmp_path: Path) -> None:
    path = tmp_path / "small.model"
    path.write_bytes(MODEL)
    tokenizer = SentencePieceTokenizer.from_file(path)
    path.unlink()
    assert SentencePieceTokenizer.from_definition(tokenizer.definition()) == tokenizer == USUAL


@pytest.mark.parametrize("content", [None, b"", b"no model", b"\x0a\xff", MODEL[:-7], MODEL + bytes([3 << 3 | 2, 1, 7])])
def test_a_file_that_is_no_model_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "bad.model"
    if content is not None:
        path.write_bytes(content)
    message = "cannot be read" if content is None else "not a sentencepiece model"
    with pytest.raises(ValueError, match=rf"bad\.model:? {message}"):
        SentencePieceTokenizer.from_file(path)
