"""Ids, their bytes and offsets, and rows of unequal length."""

import numpy as np
import pytest

from leadline.tokenization.ids import contiguous_offsets, definition_digest, join_bytes, pad_rows
from leadline.tokenization.tokenizer import Specials, first_specials

TABLE = (b"", b"ab", "é".encode())


def test_bytes_and_offsets() -> None:
    ids = np.array([1, 0, 2], np.int32)
    assert join_bytes(ids, TABLE, "toy") == "abé".encode()
    assert contiguous_offsets(ids, TABLE).tolist() == [[0, 2], [2, 2], [2, 4]]
    assert contiguous_offsets(np.empty(0, np.int32), TABLE).shape == (0, 2)


def test_padding_and_mask() -> None:
    rows = [np.array([10, 4], np.int32), np.array([10, 1, 9], np.int32)]
    ids, mask = pad_rows(rows, first_specials("pad", "unk"))
    assert ids.tolist() == [[10, 4, 0], [10, 1, 9]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert pad_rows(rows, Specials(pad=7), 4)[0].tolist() == [[10, 4, 7, 7], [10, 1, 9, 7]]


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
        pad_rows([np.array(row, np.int32) for row in rows], specials, length)


def test_specials_in_order() -> None:
    assert first_specials("pad", "bos").named() == {"pad": 0, "bos": 1}
    assert Specials(pad=5, bos=3).ids() == (3, 5)


def test_a_digest_is_independent_of_the_order_of_keys() -> None:
    assert definition_digest({"a": 1, "b": 2}) == definition_digest({"b": 2, "a": 1}) != definition_digest({"a": 2, "b": 2})
