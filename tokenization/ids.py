"""Ids back to bytes, and rows of ids of unequal length in one array."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int32, Int64

from tokenization.tokenizer import Specials


def checked(ids: Sequence[int] | np.ndarray, vocabulary_size: int, name: str) -> Int64[np.ndarray, "T"]:
    """The ids as one row.

    Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary of the tokenizer of that name.
    """
    values = np.asarray(ids)
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"ids must be one row of integers, not {values.dtype} of shape {values.shape}")
    unknown = np.flatnonzero((values < 0) | (values >= vocabulary_size))
    if unknown.size:
        at = unknown[0]
        raise ValueError(f"id {values[at]} at position {at} is none of the {name} tokenizer's 0 to {vocabulary_size - 1}")
    return values.astype(np.int64)


def joined(ids: Sequence[int] | np.ndarray, pieces: Sequence[bytes], name: str) -> bytes:
    """The bytes of the ids, in order; `pieces` are those of every id, empty for specials. Raises what `checked` does."""
    return b"".join([pieces[i] for i in checked(ids, len(pieces), name).tolist()])


def offsets(ids: Int32[np.ndarray, "T"], pieces: Sequence[bytes]) -> Int64[np.ndarray, "T 2"]:
    """Where each id's bytes begin and end, where the ids' bytes joined are the whole text."""
    ends = np.cumsum([len(pieces[i]) for i in ids.tolist()], dtype=np.int64)
    return np.stack([np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]]), ends], axis=1)


def padded(
    rows: Sequence[Int32[np.ndarray, "..."]], specials: Specials, length: int | None = None
) -> tuple[Int32[np.ndarray, "B T"], Bool[np.ndarray, "B T"]]:
    """The rows side by side, PAD behind the shorter ones, and True where an id is none of that padding.

    `length` is that of the longest row unless it is given; rows are never cut.

    Raises ValueError without a PAD, without a row, and for a row longer than `length`.
    """
    if specials.pad is None:
        raise ValueError("this tokenizer has no PAD to fill shorter rows with; give it one, or rows of one length")
    if not rows:
        raise ValueError("there is no row to pad; give at least one")
    longest = max(len(row) for row in rows)
    if length is not None and longest > length:
        raise ValueError(f"a row of {longest} ids does not fit into {length}; cut it, or raise the length")
    found = np.full((len(rows), length or longest), specials.pad, np.int32)
    for row, ids in zip(found, rows, strict=True):
        row[: len(ids)] = ids
    return found, np.arange(found.shape[1]) < np.array([[len(row)] for row in rows])


def digest_of(definition: dict[str, Any]) -> str:
    """SHA-256, in hexadecimal, of a definition, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
