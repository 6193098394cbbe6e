"""The byte tokenizer: every byte is an id, so every text has ids and nothing is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from leadline.tokenization.base import EACH_BYTE, TableTokenizer
from leadline.tokenization.ids import check_ids
from leadline.tokenization.normalization import to_utf8
from leadline.tokenization.tokenizer import Specials

BYTES = 256


@dataclass(frozen=True)
class ByteTokenizer(TableTokenizer):
    """Ids 0 to 255 are the bytes of the UTF-8 encoding, then follow PAD 256, BOS 257 and EOS 258. There is no UNK."""

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "byte"

    @property
    def specials(self) -> Specials:
        """PAD, BOS and EOS, after the bytes."""
        return Specials(pad=BYTES, bos=BYTES + 1, eos=BYTES + 2)

    @property
    def lossless(self) -> bool:
        """Always."""
        return True

    def _build_table(self) -> tuple[bytes, ...]:
        """The 256 bytes, then the three specials."""
        return *EACH_BYTE, *(b"",) * len(self.specials.ids())

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Takes the bytes of a text as ids. Bytes need not be UTF-8.

        Raises:
            ValueError: The string contains a lone surrogate.
        """
        return np.frombuffer(to_utf8(text), np.uint8).astype(np.int32)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its bytes. Raises what `encode` does."""
        ids = self.encode(text)
        return ids, np.arange(len(ids))[:, None] + np.arange(2)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Returns the bytes among the ids; specials add nothing. An array is as fast as its copy.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        values = check_ids(ids, self.vocabulary_size, self.name)
        return values[values < BYTES].astype(np.uint8).tobytes()

    def definition(self) -> dict[str, Any]:
        """The name in place of a kind, which keeps the digest as it was first published, and the ids of the specials."""
        specials = {name: getattr(self.specials, name) for name in ("pad", "unk", "bos", "eos")}
        return {"name": self.name, "bytes": BYTES, "specials": specials}

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> "ByteTokenizer":
        """Returns the tokenizer, of which there is one.

        Raises:
            ValueError: The definition is another.
        """
        tokenizer = cls()
        if definition != tokenizer.definition():
            raise ValueError(f"the definition of bytes is {tokenizer.definition()}, not {str(definition)[:200]}")
        return tokenizer
