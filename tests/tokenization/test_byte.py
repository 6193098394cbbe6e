"""The byte tokenizer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenization.byte import ByteTokenizer
from tokenization.tokenizer import Specials, Tokenizer


@given(st.binary(max_size=300))
def test_any_bytes_come_back(text: bytes) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert ids.tolist() == list(text)
    assert tokenizer.decode(ids) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=100))
def test_a_string_is_its_utf8(text: str) -> None:
    tokenizer: Tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)).decode("utf-8") == text


def test_specials_follow_the_bytes_and_decode_to_nothing() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.specials == Specials(pad=256, unk=None, bos=257, eos=258)
    assert tokenizer.specials.ids() == (256, 257, 258)
    assert tokenizer.vocabulary_size == 259
    assert tokenizer.decode([257, 104, 256, 105, 258]) == b"hi"


def test_the_name_of_a_special_is_ordinary_text() -> None:
    assert ByteTokenizer().encode("<eos>").max() < 256


def test_token_bytes_join_to_the_decoded_text() -> None:
    tokenizer = ByteTokenizer()
    every = list(range(tokenizer.vocabulary_size))
    assert b"".join(tokenizer.token_bytes(i) for i in every) == tokenizer.decode(every) == bytes(range(256))


def test_a_batch_is_its_texts() -> None:
    tokenizer = ByteTokenizer()
    texts = ["", "é", b"\xff\x00"]
    for ids, text in zip(tokenizer.encode_batch(texts), texts, strict=True):
        np.testing.assert_array_equal(ids, tokenizer.encode(text))


@pytest.mark.parametrize("ids", [[0, 259], [0, -1], np.array([0, 2**40])])
def test_an_unknown_id_is_named(ids: list[int] | np.ndarray) -> None:
    with pytest.raises(ValueError, match=f"id {ids[1]} at position 1"):
        ByteTokenizer().decode(ids)


@pytest.mark.parametrize("ids", [np.array([1.0]), np.array([[1, 2]])])
def test_ids_are_one_row_of_integers(ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="one row of integers"):
        ByteTokenizer().decode(ids)


def test_no_ids_are_no_bytes() -> None:
    assert ByteTokenizer().decode([]) == b""


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(ValueError, match=r"character 2 .* U\+D800"):
        ByteTokenizer().encode("ab\ud800")


def test_the_digest_is_fixed() -> None:
    """Token files and records are keyed by it: it changes only when the same text gets other ids."""
    assert ByteTokenizer().digest() == "72a0a4ed0dcd4fb267b48c5dc1c54d3d353fce209d9f820bd6292b7099b37d68"
