"""The character tokenizer: every character of the training text is an id; all others are UNK, or their bytes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Int32, Int64

from leadline.tokenization.base import EACH_BYTE, SPECIALS, UNK, TableTokenizer
from leadline.tokenization.ids import contiguous_offsets
from leadline.tokenization.normalization import Step, normalize
from leadline.tokenization.words import byte_starts, sequence_of_texts


@dataclass(frozen=True)
class CharacterTokenizer(TableTokenizer):
    """PAD 0, UNK 1, BOS 2, EOS 3, the 256 bytes with byte fallback, then the characters (code points) in ascending order.

    Args:
        alphabet: The characters, in ascending order.
        normalization: The steps that are applied to a text first.
        byte_fallback: Whether other characters become their UTF-8 bytes, instead of UNK.

    Raises:
        ValueError: The characters are not in ascending order, or one is repeated.
    """

    alphabet: str
    normalization: tuple[Step, ...] = ()
    byte_fallback: bool = False

    def __post_init__(self) -> None:
        if any(left >= right for left, right in pairwise(self.alphabet)):
            raise ValueError("the characters of an alphabet ascend by code point without repetition; sort them")

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "character"

    @property
    def lossless(self) -> bool:
        """With byte fallback and without normalization; a character that is UNK is lost."""
        return self.byte_fallback and not self.normalization

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id."""
        specials = (b"",) * len(SPECIALS.ids())
        return specials + EACH_BYTE * self.byte_fallback + tuple(character.encode() for character in self.alphabet)

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes each character by binary search in the alphabet, O(T log V).

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        text = normalize(text, self.normalization)
        points = _code_points(text)
        known = np.isin(points, self._points)
        first = self.vocabulary_size - len(self.alphabet)
        ids = np.where(known, first + np.searchsorted(self._points, points), UNK).astype(np.int32)
        if not self.byte_fallback or known.all():
            return ids
        sizes = np.where(known, 1, np.diff(byte_starts(text)))
        unknown = points[~known].tobytes().decode("utf-32-le").encode()
        ids = np.repeat(ids, sizes)
        ids[np.repeat(~known, sizes)] = len(SPECIALS.ids()) + np.frombuffer(unknown, np.uint8)
        return ids

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its characters in the bytes of the normalized text. Raises what `encode` does."""
        if self.byte_fallback:
            ids = self.encode(text)
            return ids, contiguous_offsets(ids, self.table)
        starts = byte_starts(normalize(text, self.normalization))
        return self.encode(text), np.stack([starts[:-1], starts[1:]], axis=1)

    @cached_property
    def _points(self) -> np.ndarray:
        return _code_points(self.alphabet)


def train_characters(
    texts: Iterable[str | bytes],
    size: int | None = None,
    *,
    normalization: Sequence[Step] = (),
    byte_fallback: bool = False,
) -> CharacterTokenizer:
    """Builds the tokenizer of the most frequent characters; of equally frequent ones, the lowest code points.

    Args:
        texts: The training texts.
        size: The number of ids, specials included. None takes every character, and texts with fewer give fewer ids.
        normalization: The steps that are applied to each text first.
        byte_fallback: A field of the tokenizer.

    Raises:
        ValueError: The size leaves no room for a character, a single text is given, or a text is not UTF-8 or contains a
            lone surrogate.
    """
    first = CharacterTokenizer("", byte_fallback=byte_fallback).vocabulary_size
    if size is not None and size <= first:
        others = "specials and bytes" if byte_fallback else "specials"
        raise ValueError(f"a vocabulary of {size} has no room for a character beside {first} {others}")
    counts: Counter[str] = Counter()
    for text in sequence_of_texts(texts):
        counts.update(normalize(text, normalization))
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    chosen = ranked if size is None else ranked[: size - first]
    return CharacterTokenizer("".join(sorted(chosen)), tuple(normalization), byte_fallback)


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
