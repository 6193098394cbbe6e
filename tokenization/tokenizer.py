"""What every tokenizer offers: text to ids, ids back to bytes, and a digest of all that defines the two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32


@dataclass(frozen=True)
class Specials:
    """The ids that stand for no text; None where a tokenizer has no such token."""

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None

    def ids(self) -> tuple[int, ...]:
        """The ids that exist, in ascending order."""
        return tuple(sorted(i for i in (self.pad, self.unk, self.bos, self.eos) if i is not None))


@runtime_checkable
class Tokenizer(Protocol):
    """Ids lie in [0, vocabulary_size). Bytes given in place of a string are its UTF-8 encoding."""

    @property
    def name(self) -> str:
        """A short name for tables and messages."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, specials included."""
        ...

    @property
    def specials(self) -> Specials:
        """The ids that stand for no text."""
        ...

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of a text. No special is added, and text that looks like a special is ordinary text.

        Raises ValueError when the text cannot be expressed.
        """
        ...

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order."""
        ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of a sequence of ids; specials add none. They are bytes because a token may end inside a character.

        Raises ValueError for an id outside the vocabulary.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id, none for a special. Sums of their lengths are the byte counts of bits per byte.

        Raises ValueError for an id outside the vocabulary.
        """
        ...

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of all that decides which ids a text gets. Equal digests mean equal ids."""
        ...
