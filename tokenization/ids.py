"""Arrays of ids: validation, decoding by a table, offsets; and the digest of a definition."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

LARGEST_ID = 2**24 - 1  # a table of 2^24 ids takes 128 MB; published vocabularies have at most 262,208


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


def definition_digest(definition: dict[str, Any]) -> str:
    """SHA-256 of a definition in hexadecimal, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
