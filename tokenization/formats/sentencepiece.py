"""Published sentencepiece models: the sentencepiece library encodes, from the bytes of a .model file."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from jaxtyping import Int32, Int64

from leadline.tokenization.base import TableTokenizer
from leadline.tokenization.byte import BYTES
from leadline.tokenization.normalization import to_text
from leadline.tokenization.tokenizer import Specials
from leadline.tokenization.unigram.tokenizer import SPACE, UnigramTokenizer

UNIGRAM, NORMAL = 1, 1  # a kind of model and a kind of piece, by their numbers in sentencepiece_model.proto


@dataclass(frozen=True)
class SentencePieceTokenizer(TableTokenizer):
    """The ids of a model as the library gives them (Kudo and Richardson 2018, arXiv:1808.06226).

    Args:
        model: The bytes of the .model file in base 64, so that the definition is complete.

    Raises:
        ValueError: The bytes are not a sentencepiece model.
    """

    model: str

    def __post_init__(self) -> None:
        _ = self._library, self._settings

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Loads a .model file.

        Raises:
            ValueError: The file, which is named, cannot be read or is not a sentencepiece model.
        """
        try:
            return cls(b64encode(Path(path).read_bytes()).decode())
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "sentencepiece"

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS and EOS, as far as the model has them."""
        library = self._library
        ids = {"pad": library.pad_id(), "unk": library.unk_id(), "bos": library.bos_id(), "eos": library.eos_id()}
        return Specials(**{name: token for name, token in ids.items() if token >= 0})

    @property
    def lossless(self) -> bool:
        """With byte fallback, no normalization, and no escaping of spaces, which nearly all models have."""
        settings = self._settings
        return settings.keeps_text and settings.byte_fallback and not settings.escape

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id: ▁ is a space, <0x41> the byte 0x41, and control symbols have none."""
        return tuple(map(self._piece_bytes, range(self._library.vocab_size())))

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text by the library.

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        return np.array(self._library.encode_as_ids(to_text(text)), np.int32)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens in the text as the library normalizes it.

        There ▁ is a space, and a dummy prefix is not counted. Raises what `encode` does.
        """
        ids = self.encode(text)
        surfaces = self._library.encode_as_pieces(to_text(text))  # for UNK, the characters themselves
        unk = self.specials.unk
        lengths = np.array(
            [
                len(surface.encode() if token == unk else self.table[token])
                for token, surface in zip(ids.tolist(), surfaces, strict=True)
            ],
            np.int64,
        )
        ends = np.cumsum(lengths) - self._settings.dummy_prefix
        return ids, np.stack([ends - lengths, ends], axis=1).clip(min=0)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Concatenates the bytes of the ids, without the space of a dummy prefix. Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        text = super().decode(ids)
        return text.removeprefix(b" ") if self._settings.dummy_prefix else text

    def unigram(self) -> UnigramTokenizer:
        """Converts the model to our own segmentation, which gives the same ids.

        Raises:
            ValueError: The model is not unigram, changes the text before it is cut, or has other ids than specials, then bytes,
                then pieces with a probability.
        """
        settings, specials = self._settings, self.specials.named()
        if settings.kind != UNIGRAM or not settings.keeps_text:
            raise ValueError(
                "only a unigram model that leaves text as it is (identity, no white space removed) can be converted"
            )
        first = len(specials) + BYTES * settings.byte_fallback
        if list(specials.values()) != list(range(len(specials))) or any(kind != NORMAL for kind in settings.pieces[first:]):
            raise ValueError("this model has symbols besides specials, bytes and pieces, or has them in another order")
        tokens = range(first, self.vocabulary_size)
        return UnigramTokenizer(
            tuple(self._library.id_to_piece(token) for token in tokens),
            tuple(float(self._library.get_score(token)) for token in tokens),
            byte_fallback=settings.byte_fallback,
            escape=settings.escape,
            dummy_prefix=settings.dummy_prefix,
            special_names=tuple(specials),
        )

    @cached_property
    def _library(self) -> sentencepiece.SentencePieceProcessor:
        try:
            if not self.model:  # the library takes it for a model without pieces
                raise RuntimeError("empty")
            return sentencepiece.SentencePieceProcessor(model_proto=b64decode(self.model, validate=True))
        except (RuntimeError, binascii.Error) as error:
            raise ValueError("not a sentencepiece model") from error

    @cached_property
    def _settings(self) -> "_Settings":
        try:
            return _settings(b64decode(self.model))
        except (LookupError, TypeError) as error:  # a message that is cut off, and a field of another type
            raise ValueError("not a sentencepiece model: its fields are damaged") from error

    def _piece_bytes(self, token: int) -> bytes:
        library = self._library
        piece = library.id_to_piece(token)
        if library.is_control(token) or library.is_unknown(token):
            return b""
        if library.is_byte(token):
            return bytes([int(piece[1:-1], 16)])
        return (piece.replace(SPACE, " ") if self._settings.escape else piece).encode()


@dataclass(frozen=True)
class _Settings:
    """What the library does not expose of a model.

    Attributes:
        kind: The kind of model.
        pieces: The kind of every piece.
        keeps_text: Whether text is neither normalized nor stripped.
        byte_fallback: Whether unknown characters become bytes.
        escape: Whether spaces become ▁.
        dummy_prefix: Whether a space precedes the text.
    """

    kind: int
    pieces: tuple[int, ...]
    keeps_text: bool
    byte_fallback: bool
    escape: bool
    dummy_prefix: bool


def _settings(model: bytes) -> _Settings:
    """Reads the settings by their field numbers in sentencepiece_model.proto; absent ones have their defaults."""
    whole = _fields(model)
    trainer, normalizer = (_fields(b"".join(whole.get(number, []))) for number in (2, 3))

    def switch(fields: dict[int, list], number: int, default: bool) -> bool:
        return bool(fields.get(number, [default])[-1])

    suffix = switch(trainer, 24, False)
    return _Settings(
        kind=trainer.get(3, [UNIGRAM])[-1],
        pieces=tuple(_fields(piece).get(3, [NORMAL])[-1] for piece in whole[1]),
        keeps_text=not (b"".join(normalizer.get(2, [])) or switch(normalizer, 4, True) or suffix),
        byte_fallback=switch(trainer, 35, False),
        escape=switch(normalizer, 5, True),
        dummy_prefix=switch(normalizer, 3, True) and not suffix,
    )


def _fields(message: bytes) -> dict[int, list]:
    """The values of a protocol buffer by field number: integers, and bytes for all other types."""
    values: dict[int, list] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
        else:
            length, at = _varint(message, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = message[at : at + length], at + length
        values.setdefault(key >> 3, []).append(value)
    return values


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Reads an integer in groups of 7 bits, the lowest first; returns it and the place after it."""
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
