"""The same ids by the library tokenizers."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Int32

from tokenization.bpe import BpeTokenizer, train_bpe
from tokenization.byte import ByteTokenizer
from tokenization.fast import FastTokenizer
from tokenization.tokenizer import Tokenizer

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors. Étés\n" * 2]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words", normalization=["nfkc", "lower", "spaces"])
FAST_BYTES, FAST_CHARACTERS = FastTokenizer(BYTES), FastTokenizer(CHARACTERS)
BOTH = pytest.mark.parametrize("fast", [FAST_BYTES, FAST_CHARACTERS], ids=["bytes", "characters"])
# What every engine knows: Unicode grows by some letters each year.
TEXT = st.text(alphabet=st.characters(max_codepoint=0x24F), max_size=60)


@BOTH
def test_it_is_the_tokenizer_that_it_wraps(fast: FastTokenizer) -> None:
    assert isinstance(fast, Tokenizer)
    for part in ("name", "vocabulary_size", "specials", "lossless"):
        assert getattr(fast, part) == getattr(fast.wrapped, part)
    assert (fast.digest(), fast.definition()) == (fast.wrapped.digest(), fast.wrapped.definition())


@given(TEXT)
def test_ids_and_offsets_are_equal(text: str) -> None:
    for fast in (FAST_BYTES, FAST_CHARACTERS):
        ids, places = fast.encode_with_offsets(text)
        expected = fast.wrapped.encode_with_offsets(text)
        assert fast.encode(text).tolist() == ids.tolist() == expected[0].tolist()
        assert places.tolist() == expected[1].tolist()


@BOTH
@pytest.mark.parametrize("text", ["<pad><eos> <unk>", "ΟΔΟΣ Σ", b"\xc3\xa9 \x00", "a" * 2**16, " " * 2**16, "1 2\n" * 999])
def test_ids_of_odd_texts_are_equal(fast: FastTokenizer, text: str | bytes) -> None:
    ids = fast.encode(text)
    assert ids.dtype == np.int32
    assert ids.tolist() == fast.wrapped.encode(text).tolist()


@BOTH
def test_bytes_come_back(fast: FastTokenizer) -> None:
    every = range(fast.vocabulary_size)
    assert fast.decode(list(every)) == fast.wrapped.decode(list(every))
    assert [fast.token_bytes(i) for i in every] == [fast.wrapped.token_bytes(i) for i in every]


@BOTH
def test_no_texts(fast: FastTokenizer) -> None:
    assert fast.encode_batch([]) == []
    assert fast.encode("").tolist() == []


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "byte 2"), ("ab\ud800", r"character 2 .* U\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FAST_BYTES.encode(text)


@dataclass(frozen=True)
class Off(BpeTokenizer):
    """Every id is one too high."""

    def encode_batch(self, texts: object) -> list[Int32[np.ndarray, "..."]]:
        return [ids + 1 for ids in super().encode_batch(texts)]  # pyright: ignore[reportArgumentType]


def test_other_ids_are_seen_at_once() -> None:
    with pytest.raises(ValueError, match=r"gives .* other ids than its fast form"):
        FastTokenizer(Off(BYTES.merges))


def test_what_the_library_has_no_form_of() -> None:
    with pytest.raises(ValueError, match="a byte tokenizer has no form"):
        FastTokenizer(ByteTokenizer())
    with pytest.raises(ValueError, match="only the patterns whitespace and words"):
        FastTokenizer(replace(CHARACTERS, pattern="gpt2"))
