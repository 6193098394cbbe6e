"""The byte tokenizer: every byte is its own id, so every text is known and nothing has to be trained."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from jaxtyping import Int32

from tokenization.tokenizer import Specials

BYTES = 256


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

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The bytes of the text, as ids.

        Raises ValueError for a string with a lone surrogate, which UTF-8 cannot express.
        """
        return np.frombuffer(_utf8(text), np.uint8).astype(np.int32)

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """`encode` of each text, in order."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes among the ids, in order; specials add none.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        values = np.asarray(ids)
        if values.size == 0:
            return b""
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"ids must be one row of integers, not {values.dtype} of shape {values.shape}")
        unknown = np.flatnonzero((values < 0) | (values >= self.vocabulary_size))
        if unknown.size:
            at = unknown[0]
            raise ValueError(
                f"id {values[at]} at position {at} is none of the byte tokenizer's 0 to {self.vocabulary_size - 1}"
            )
        return values[values < BYTES].astype(np.uint8).tobytes()

    def token_bytes(self, token: int) -> bytes:
        """The byte of one id, none for a special.

        Raises ValueError for an id outside the vocabulary.
        """
        return self.decode([token])

    def digest(self) -> str:
        """SHA-256 of the name and of the ids of the specials, which define this tokenizer."""
        definition = {"name": self.name, "bytes": BYTES, "specials": asdict(self.specials)}
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()


def _utf8(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the text is the lone surrogate U+{ord(text[error.start]):04X}, "
            "which has no UTF-8 form; remove it"
        ) from error
