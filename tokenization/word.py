"""The word tokenizer: every word of a fixed vocabulary is one id, and all others are one and the same, UNK."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tokenization.by_words import DefinedByWords
from tokenization.defined import SPECIALS, UNK, refuse_doubles
from tokenization.ids import checked
from tokenization.normalization import Step
from tokenization.words import Segment, word_counts


@dataclass(frozen=True)
class WordTokenizer(DefinedByWords):
    """PAD 0, UNK 1, BOS 2, EOS 3, then the words in their order.

    Args:
        words: the vocabulary.
        pattern: what a word is: "whitespace", "words" (punctuation stands alone), or any that `pretokenization.cut` takes.
        single_digits: whether every digit is a word.
        normalization: what is done to a text before it is cut.

    Raises ValueError for an empty word and for one that is there twice.
    """

    words: tuple[str, ...]
    pattern: str = "words"
    single_digits: bool = False
    normalization: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        refuse_doubles(self.name, self.words)

    @property
    def name(self) -> str:
        """The name that tables print."""
        return "word"

    @property
    def lossless(self) -> bool:
        """Never: white space and unknown words are lost."""
        return False

    def pieces_bytes(self) -> Iterator[bytes]:
        """The bytes of every id: those of the word, without white space."""
        yield from (b"",) * len(SPECIALS.ids())
        yield from (word.encode() for word in self.words)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The known words with one space between them, whatever stood there; specials, UNK among them, add nothing.

        Raises ValueError for ids that are no integers of one row, or lie outside the vocabulary.
        """
        found = (self.table[i] for i in checked(ids, self.vocabulary_size, self.name).tolist())
        return b" ".join(word for word in found if word)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, start=len(SPECIALS.ids()))}

    def _segments(self, word: str) -> list[Segment]:
        return [(self._ids.get(word, UNK), 0, len(word))]


def train_words(
    texts: Iterable[str | bytes],
    size: int | None = None,
    *,
    order: Literal["frequency", "sorted"] = "frequency",
    pattern: str = "words",
    single_digits: bool = False,
    normalization: Sequence[Step] = (),
) -> WordTokenizer:
    """The most frequent words of the texts; of equally frequent ones, the first by code points.

    Args:
        texts: what is counted.
        size: the number of ids, specials included; None takes every word. Texts with fewer words give fewer ids.
        order: "frequency" gives the most frequent words the lowest ids, so a smaller vocabulary is a prefix; "sorted" gives
            them by code points.
        pattern, single_digits, normalization: as the tokenizer has them.

    Raises ValueError for a size without room for a word, and what `word_counts` does.
    """
    if size is not None and size <= len(SPECIALS.ids()):
        raise ValueError(f"a vocabulary of {size} has no room for a word beside {len(SPECIALS.ids())} specials")
    counts = word_counts(texts, pattern, normalization=normalization, single_digits=single_digits)
    words = sorted(counts, key=lambda word: (-counts[word], word))
    kept = words if size is None else words[: size - len(SPECIALS.ids())]
    return WordTokenizer(tuple(sorted(kept) if order == "sorted" else kept), pattern, single_digits, tuple(normalization))
