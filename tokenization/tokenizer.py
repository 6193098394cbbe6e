"""What every tokenizer offers: text to ids, ids back to bytes, and a digest of all that defines the two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32, Int64


@dataclass(frozen=True)
class Specials:
    """The ids that stand for no text; None where a tokenizer has no such token."""

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    cls: int | None = None
    sep: int | None = None

    def named(self) -> dict[str, int]:
        """The ids that exist by name, in ascending order of ids."""
        found = {name: i for name, i in vars(self).items() if i is not None}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def ids(self) -> tuple[int, ...]:
        """The ids that exist, in ascending order."""
        return tuple(self.named().values())


def first_specials(*names: str) -> Specials:
    """These specials as the ids 0, 1, …; what is trained has its pieces behind them, so a shorter vocabulary is a prefix."""
    return Specials(**{name: i for i, name in enumerate(names)})


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

    @property
    def lossless(self) -> bool:
        """Whether decode(encode(text)) is the text, for every text that can be encoded."""
        ...

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of a text. No special but UNK is added, and text that looks like a special is ordinary text.

        Raises ValueError when the text cannot be expressed, or is not UTF-8 where characters count.
        """
        ...

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order."""
        ...

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and where in the UTF-8 bytes of the normalised text each id begins and ends (exclusive).

        Raises what `encode` does.
        """
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

    def definition(self) -> dict[str, Any]:
        """All that decides which ids a text gets, as JSON can hold it; "kind" says which tokenizer reads it."""
        ...

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the definition. Equal digests mean equal ids."""
        ...
