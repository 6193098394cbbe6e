"""Encoding text word by word, as all tokenizers do whose pieces never cross from one word into the next."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32, Int64

from tokenization.defined import Defined
from tokenization.normalization import Step, normalized
from tokenization.pretokenization import cut, places
from tokenization.text import characters
from tokenization.words import Segment, encode_places, encode_words


class DefinedByWords(Defined):
    """A tokenizer whose fields say, among others, what a word is; how a word is segmented is left to it."""

    pattern: str
    single_digits: bool
    normalization: tuple[Step, ...]

    @abstractmethod
    def _segments(self, word: str) -> Sequence[Segment]:
        """The ids of one word, with the characters that each stands for."""

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """The ids of every word; UNK for a word, or a part, outside the vocabulary.

        Raises ValueError for bytes that are not UTF-8 and for a lone surrogate.
        """
        text = normalized(characters(text), self.normalization)
        return encode_words(cut(text, self.pattern, single_digits=self.single_digits), self._segments)

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """`encode`, and the place of every id. Raises what `encode` does."""
        text = normalized(characters(text), self.normalization)
        return encode_places(text, places(text, self.pattern, single_digits=self.single_digits), self._segments)
