"""Ids, their bytes and places, and rows of unequal length."""

import numpy as np
import pytest

from tokenization.ids import digest_of, joined, offsets, padded
from tokenization.tokenizer import Specials, first_specials

PIECES = (b"", b"ab", "é".encode())


def test_bytes_and_places() -> None:
    ids = np.array([1, 0, 2], np.int32)
    assert joined(ids, PIECES, "toy") == "abé".encode()
    assert offsets(ids, PIECES).tolist() == [[0, 2], [2, 2], [2, 4]]
    assert offsets(np.empty(0, np.int32), PIECES).shape == (0, 2)


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(ValueError, match="id 3 at position 1 is none of the toy tokenizer's 0 to 2"):
        joined([0, 3], PIECES, "toy")


def test_padding_and_mask() -> None:
    """The row [10, 4] beside one of three ids."""
    rows = [np.array([10, 4], np.int32), np.array([10, 1, 9], np.int32)]
    ids, mask = padded(rows, first_specials("pad", "unk"))
    assert ids.tolist() == [[10, 4, 0], [10, 1, 9]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert padded(rows, Specials(pad=7), 4)[0].tolist() == [[10, 4, 7, 7], [10, 1, 9, 7]]


@pytest.mark.parametrize(
    ("rows", "specials", "length", "message"),
    [
        ([[1]], Specials(), None, "no PAD"),
        ([], Specials(pad=0), None, "no row"),
        ([[1, 2]], Specials(pad=0), 1, "2 ids does not fit into 1"),
    ],
)
def test_what_cannot_be_padded(rows: list, specials: Specials, length: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        padded([np.array(row, np.int32) for row in rows], specials, length)


def test_specials_in_order() -> None:
    assert first_specials("pad", "bos").named() == {"pad": 0, "bos": 1}
    assert Specials(pad=5, bos=3).ids() == (3, 5)


def test_a_digest_knows_no_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 2, "b": 2})
