"""Published sentencepiece models: the ids are those of the sentencepiece library, from the bytes of a .model file."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from jaxtyping import Int32, Int64

from tokenization.defined import Defined
from tokenization.text import characters
from tokenization.tokenizer import Specials
from tokenization.unigram import BYTES, SPACE, UnigramTokenizer

UNIGRAM, NORMAL = 1, 1  # a kind of model and a kind of piece, as the file numbers them


@dataclass(frozen=True)
class SentencePieceTokenizer(Defined):
    """The ids of a model as the library gives them.

    Args:
        model: the bytes of the .model file, in base64, so that the definition is complete.

    Raises ValueError for what is no such model.
    """

    model: str

    def __post_init__(self) -> None:
        _ = self._library

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """The tokenizer of a .model file.

        Raises ValueError, naming the file, if it cannot be read or is no such model.
        """
        try:
            return cls(b64encode(Path(path).read_bytes()).decode())
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "sentencepiece"

    @property
    def specials(self) -> Specials:
        """PAD, UNK, BOS and EOS, as far as the model has them."""
        found = {name: getattr(self._library, f"{name}_id")() for name in ("pad", "unk", "bos", "eos")}
        return Specials(**{name: i for name, i in found.items() if i >= 0})

    @property
    def lossless(self) -> bool:
        """With byte fallback, and if spaces are neither removed nor written as ▁, which nearly all models do."""
        settings = self._settings
        return settings.keeps_text and settings.byte_fallback and not settings.escape

    def pieces_bytes(self) -> Iterator[bytes]:
        """The bytes of every id: ▁ is a space, <0x41> the byte 0x41, and control symbols have none."""
        library = self._library
        for i in range(library.vocab_size()):
            piece = library.id_to_piece(i)
            if library.is_control(i) or library.is_unknown(i):
                yield b""
            elif library.is_byte(i):
                yield bytes([int(piece[1:-1], 16)])
            else:
                yield (piece.replace(SPACE, " ") if self._settings.escape else piece).encode()

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of the library.

        Raises ValueError for bytes that are not UTF-8 and for a lone surrogate.
        """
        return np.array(self._library.encode_as_ids(characters(text)), np.int32)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every id in the text that the library has normalised.

        There, ▁ is a space, and a dummy prefix is not counted. Raises what `encode` does.
        """
        ids = self.encode(text)
        surfaces = self._library.encode_as_pieces(characters(text))  # which for UNK are the characters themselves
        known = zip(ids.tolist(), surfaces, strict=True)
        unk = self.specials.unk
        widths = [len(surface.encode() if i == unk else self.table[i]) for i, surface in known]
        lengths = np.array(widths, np.int64)
        ends = np.cumsum(lengths) - self._settings.dummy_prefix
        return ids, np.stack([ends - lengths, ends], axis=1).clip(min=0)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of the ids, in order, without the space of a dummy prefix; specials, UNK among them, add none.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        found = super().decode(ids)
        return found.removeprefix(b" ") if self._settings.dummy_prefix else found

    def unigram(self) -> UnigramTokenizer:
        """The same vocabulary behind our own segmentation, which gives the same ids.

        Raises ValueError for a model that is not unigram, changes the text before it is cut, or has other pieces than its
        specials, then bytes, then pieces with a probability.
        """
        settings, specials = self._settings, self.specials.named()
        if settings.kind != UNIGRAM or not settings.keeps_text:
            raise ValueError(
                "only a unigram model that leaves text as it is (identity, no white space removed) can be converted"
            )
        first = len(specials) + BYTES * settings.byte_fallback
        if list(specials.values()) != list(range(len(specials))) or any(kind != NORMAL for kind in settings.pieces[first:]):
            raise ValueError("this model has symbols besides its specials, bytes and pieces, or has them in another order")
        ids = range(first, self.vocabulary_size)
        return UnigramTokenizer(
            tuple(self._library.id_to_piece(i) for i in ids),
            tuple(float(self._library.get_score(i)) for i in ids),
            byte_fallback=settings.byte_fallback,
            escape=settings.escape,
            dummy_prefix=settings.dummy_prefix,
            special_names=tuple(specials),
        )

    @cached_property
    def _library(self) -> sentencepiece.SentencePieceProcessor:
        try:
            if not self.model:  # which the library takes for a model without any piece
                raise RuntimeError("empty")
            return sentencepiece.SentencePieceProcessor(model_proto=b64decode(self.model, validate=True))
        except (RuntimeError, binascii.Error) as error:
            raise ValueError("this is no sentencepiece model") from error

    @cached_property
    def _settings(self) -> "_Settings":
        return _settings(b64decode(self.model))


@dataclass(frozen=True)
class _Settings:
    """What the library does not tell about a model: its kind, the kind of every piece, and what is done to a text."""

    kind: int
    pieces: tuple[int, ...]
    keeps_text: bool
    byte_fallback: bool
    escape: bool
    dummy_prefix: bool


def _settings(model: bytes) -> _Settings:
    """The settings by the numbers that sentencepiece_model.proto gives them; what is not there has its default."""
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
    """The values of a protocol buffer by the numbers of their fields: integers, and bytes of all that is not one."""
    found: dict[int, list] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
        else:
            length, at = _varint(message, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = message[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """An integer in groups of 7 bits, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
