"""The interface of every tokenizer: text to ids, ids to bytes, and a digest of the definition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32, Int64


@dataclass(frozen=True)
class Specials:
    """The ids of special tokens, which stand for no text. None where a tokenizer has no such token."""

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    cls: int | None = None
    sep: int | None = None

    def named(self) -> dict[str, int]:
        """The special tokens that exist, by name, in ascending order of ids."""
        existing = {name: token for name, token in vars(self).items() if token is not None}
        return dict(sorted(existing.items(), key=lambda item: item[1]))

    def ids(self) -> tuple[int, ...]:
        """The ids that exist, in ascending order."""
        return tuple(self.named().values())


def first_specials(*names: str) -> Specials:
    """Numbers special tokens from 0 on, so that a smaller vocabulary is a prefix of a larger one.

    Args:
        *names: Field names of `Specials`, in the order of their ids.
    """
    return Specials(**{name: token for token, name in enumerate(names)})


@runtime_checkable
class Tokenizer(Protocol):
    """Maps text to ids in [0, vocabulary_size) and back. Text may be a string or its UTF-8 bytes."""

    @property
    def name(self) -> str:
        """A short name for tables and messages."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, special tokens included."""
        ...

    @property
    def specials(self) -> Specials:
        """The ids of the special tokens."""
        ...

    @property
    def lossless(self) -> bool:
        """Whether decode(encode(text)) equals the text for every valid text."""
        ...

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text. The names of special tokens in a text are ordinary text, and UNK is the only special that is added.

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        ...

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text. Raises what `encode` does."""
        ...

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens.

        Returns:
            The ids, and for each the first byte and the end (exclusive) in the UTF-8 encoding of the normalized text.

        Raises:
            ValueError: As `encode`.
        """
        ...

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Decodes ids to bytes, since a token may end inside a character. Special tokens add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, empty for a special. Their lengths sum to the byte count of bits per byte.

        Raises:
            ValueError: The id lies outside the vocabulary.
        """
        ...

    def definition(self) -> dict[str, Any]:
        """Everything that determines the ids of a text, as JSON values. "kind" names the class that reads it."""
        ...

    def digest(self) -> str:
        """SHA-256 of the definition in hexadecimal. Equal digests imply equal ids."""
        ...
