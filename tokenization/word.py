"""The word tokenizer: every word of a fixed vocabulary is an id, and all others are UNK."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leadline.tokenization.base import SPECIALS, UNK, check_vocabulary
from leadline.tokenization.ids import check_ids
from leadline.tokenization.normalization import Step
from leadline.tokenization.words import Segment, WordwiseTokenizer, word_counts


@dataclass(frozen=True)
class WordTokenizer(WordwiseTokenizer):
    """PAD 0, UNK 1, BOS 2, EOS 3, then the words in their order.

    Args:
        words: The vocabulary.
        pattern: What a word is, as `pretokenize` takes it.
        single_digits: Whether every digit is a word.
        normalization: The steps that are applied to a text first.

    Raises:
        ValueError: A word is empty or repeated, or the pattern or a step of the normalization is invalid.
    """

    words: tuple[str, ...]
    pattern: str = "words"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_vocabulary(self.name, self.words)

    @property
    def name(self) -> str:
        """The name in tables and messages."""
        return "word"

    @property
    def lossless(self) -> bool:
        """Never: white space and unknown words are lost."""
        return False

    def _build_table(self) -> tuple[bytes, ...]:
        """The bytes of every id, without white space."""
        return (b"",) * len(SPECIALS.ids()) + tuple(word.encode() for word in self.words)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Joins the words by one space each. Specials, UNK included, add nothing.

        Raises:
            ValueError: The ids are not one row of integers, or lie outside the vocabulary.
        """
        words = (self.table[token] for token in check_ids(ids, self.vocabulary_size, self.name).tolist())
        return b" ".join(word for word in words if word)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: token for token, word in enumerate(self.words, start=len(SPECIALS.ids()))}

    def _segments(self, word: str) -> list[Segment]:
        return [(self._ids.get(word, UNK), len(word.encode()))]


def train_words(
    texts: Iterable[str | bytes],
    size: int | None = None,
    *,
    pattern: str = "words",
    normalization: Sequence[Step] = (),
) -> WordTokenizer:
    """Builds the tokenizer of the most frequent words; of equally frequent ones, the first by code points.

    Ids follow the frequency, so a smaller vocabulary is a prefix.

    Args:
        texts: The training texts.
        size: The number of ids, specials included. None takes every word, and texts with fewer words give fewer ids.
        pattern: What a word is, as `pretokenize` takes it.
        normalization: The steps that are applied to each text first.

    Raises:
        ValueError: The size leaves no room for a word, or as `word_counts`.
    """
    first = len(SPECIALS.ids())
    if size is not None and size <= first:
        raise ValueError(f"a vocabulary of {size} has no room for a word beside {first} specials")
    counts = word_counts(texts, pattern, normalization=normalization)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    chosen = ranked if size is None else ranked[: size - first]
    return WordTokenizer(tuple(chosen), pattern, normalization=tuple(normalization))
