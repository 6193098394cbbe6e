"""The character tokenizer: every character that was seen is one id, and all others are one and the same, UNK."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int32, Int64

from tokenization.defined import SPECIALS, UNK, Defined
from tokenization.normalization import Step, normalized
from tokenization.text import characters
from tokenization.words import byte_starts


@dataclass(frozen=True)
class CharacterTokenizer(Defined):
    """PAD 0, UNK 1, BOS 2, EOS 3, then the characters (Unicode code points) in ascending order.

    Args:
        alphabet: the known characters, in ascending order.
        normalization: what is done to a text before it is cut.

    Raises ValueError for characters out of order or there twice.
    """

    alphabet: str
    normalization: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.alphabet, self.alphabet[1:], strict=False)):
            raise ValueError("the characters of an alphabet ascend by code point, each once; sort them")

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "character"

    @property
    def lossless(self) -> bool:
        """Never: a character outside the alphabet is lost. A text within it comes back, if nothing is normalised."""
        return False

    def pieces_bytes(self) -> Iterator[bytes]:
        """The bytes of every id: those of the character."""
        yield from (b"",) * len(SPECIALS.ids())
        yield from (character.encode() for character in self.alphabet)

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """One id a character; UNK for a character outside the alphabet.

        Raises ValueError for bytes that are not UTF-8 and for a lone surrogate.
        """
        points = _points(normalized(characters(text), self.normalization))
        if not self.alphabet:
            return np.full(len(points), UNK, np.int32)
        at = np.searchsorted(self._points, points).clip(max=len(self.alphabet) - 1)
        return np.where(self._points[at] == points, at + len(SPECIALS.ids()), UNK).astype(np.int32)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every character. Raises what `encode` does."""
        starts = byte_starts(normalized(characters(text), self.normalization))
        return self.encode(text), np.stack([starts[:-1], starts[1:]], axis=1)

    @cached_property
    def _points(self) -> np.ndarray:
        return _points(self.alphabet)


def train_characters(
    texts: Iterable[str | bytes], size: int | None = None, *, normalization: Sequence[Step] = ()
) -> CharacterTokenizer:
    """The tokenizer of the characters of the texts: all, or the most frequent that fit into `size` ids, specials included.

    Of equally frequent ones those with the lower code points stay. Raises ValueError for one text in place of several, and for
    a text that is not UTF-8 or has a lone surrogate.
    """
    if isinstance(texts, str | bytes):
        raise ValueError("give a sequence of texts; this is one text")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalized(characters(text), normalization))
    found = sorted(counts, key=lambda character: (-counts[character], character))
    kept = found if size is None else found[: size - len(SPECIALS.ids())]
    return CharacterTokenizer("".join(sorted(kept)), tuple(normalization))


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
