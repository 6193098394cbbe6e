"""Arrays of ids: validation, decoding by a table, offsets, padding; and the digest of a definition."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int32, Int64

from leadline.tokenization.tokenizer import Specials


def check_ids(ids: Sequence[int] | np.ndarray, vocabulary_size: int, name: str) -> Int64[np.ndarray, "T"]:
    """Converts ids to an array and checks them.

    Args:
        ids: One row of ids.
        vocabulary_size: The number of ids that exist.
        name: The name of the tokenizer, for the message.

    Raises:
        ValueError: The ids are not one row of integers, or lie outside the vocabulary.
    """
    values = np.asarray(ids)
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"ids must be one row of integers, not {values.dtype} of shape {values.shape}")
    unknown = np.flatnonzero((values < 0) | (values >= vocabulary_size))
    if unknown.size:
        at = unknown[0]
        raise ValueError(f"id {values[at]} at position {at} is outside the {name} tokenizer's 0 to {vocabulary_size - 1}")
    return values.astype(np.int64)


def join_bytes(ids: Sequence[int] | np.ndarray, table: Sequence[bytes], name: str) -> bytes:
    """Concatenates the bytes of ids.

    Args:
        ids: One row of ids.
        table: The bytes of every id, empty for specials.
        name: The name of the tokenizer, for the message.

    Raises:
        ValueError: As `check_ids`.
    """
    return b"".join([table[token] for token in check_ids(ids, len(table), name).tolist()])


def contiguous_offsets(ids: Int32[np.ndarray, "T"], table: Sequence[bytes]) -> Int64[np.ndarray, "T 2"]:
    """The first byte and the end of each token, where the tokens' bytes join to the whole text."""
    sizes = np.array([len(table[token]) for token in ids.tolist()], np.int64)
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1)


def pad_rows(
    rows: Sequence[Int32[np.ndarray, "..."]], specials: Specials, length: int | None = None
) -> tuple[Int32[np.ndarray, "B T"], Bool[np.ndarray, "B T"]]:
    """Stacks rows of unequal length, with PAD behind the shorter ones.

    Args:
        rows: The ids of each text. No row is truncated.
        specials: Those of the tokenizer, with a PAD.
        length: The padded length T; the longest row's by default.

    Returns:
        The padded ids, and a mask that is True except at the padding.

    Raises:
        ValueError: There is no PAD or no row, or a row is longer than `length`.
    """
    if specials.pad is None:
        raise ValueError("this tokenizer has no PAD to fill shorter rows with; give it one, or rows of one length")
    if not rows:
        raise ValueError("there is no row to pad; give at least one")
    longest = max(len(row) for row in rows)
    if length is not None and longest > length:
        raise ValueError(f"a row of {longest} ids does not fit into {length}; truncate it, or raise the length")
    padded = np.full((len(rows), length or longest), specials.pad, np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded, np.arange(padded.shape[1]) < np.array([[len(row)] for row in rows])


def definition_digest(definition: dict[str, Any]) -> str:
    """SHA-256 of a definition in hexadecimal, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
