"""The byte tokenizer: every byte is its own id, so every text is known and nothing has to be trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from tokenization.ids import checked, digest_of
from tokenization.text import utf8
from tokenization.tokenizer import Specials

BYTES = 256


@dataclass(frozen=True)
class ByteTokenizer:
    """Ids 0 to 255 are the bytes of the UTF-8 encoding; then PAD 256, BOS 257 and EOS 258. There is no UNK."""

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "byte"

    @property
    def specials(self) -> Specials:
        """PAD, BOS and EOS, after the bytes."""
        return Specials(pad=BYTES, bos=BYTES + 1, eos=BYTES + 2)

    @property
    def vocabulary_size(self) -> int:
        """256 bytes and three specials."""
        return BYTES + len(self.specials.ids())

    @property
    def lossless(self) -> bool:
        """Every text comes back."""
        return True

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The bytes of the text, as ids.

        Raises ValueError for a string with a lone surrogate, which UTF-8 cannot express.
        """
        return np.frombuffer(utf8(text), np.uint8).astype(np.int32)

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every byte. Raises what `encode` does."""
        ids = self.encode(text)
        return ids, np.arange(len(ids))[:, None] + np.arange(2)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes among the ids, in order; specials add none.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        values = checked(ids, self.vocabulary_size, self.name)
        return values[values < BYTES].astype(np.uint8).tobytes()

    def token_bytes(self, token: int) -> bytes:
        """The byte of one id, none for a special.

        Raises ValueError for an id outside the vocabulary.
        """
        return self.decode([token])

    def definition(self) -> dict[str, Any]:
        """The name and the ids of the specials define this tokenizer."""
        specials = {name: getattr(self.specials, name) for name in ("pad", "unk", "bos", "eos")}
        return {"name": self.name, "bytes": BYTES, "specials": specials}

    def digest(self) -> str:
        """SHA-256 of the definition."""
        return digest_of(self.definition())
