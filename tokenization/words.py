"""Tokenizers that cut a text into words first: counting words, and encoding each distinct word once."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int32, Int64

from leadline.tokenization.base import TableTokenizer
from leadline.tokenization.normalization import Step, check_steps, normalize
from leadline.tokenization.pretokenization import compile_pattern, pretokenize, pretokenize_with_starts

# A token, and how many bytes of the word it stands for. The segments of a word cover its bytes in order.
Segment = tuple[int, int]


class WordwiseTokenizer(TableTokenizer):
    """A tokenizer whose tokens never cross the words of a pattern, so that the ids of a word do not depend on its context."""

    pattern: str
    single_digits: bool
    normalization: tuple[Step, ...]

    def __post_init__(self) -> None:
        if self.pattern is not None:  # pyright: ignore[reportUnnecessaryComparison]
            compile_pattern(self.pattern)
        check_steps(self.normalization)

    @abstractmethod
    def _segments(self, word: str) -> Sequence[Segment]:
        """The tokens of one word, which is not empty, with the number of bytes of each."""

    def _word_ids(self, word: str) -> list[int]:
        """The ids of one word."""
        return [token for token, _ in self._segments(word)]

    def encode(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        """Encodes a text word by word.

        Raises:
            ValueError: The text is not UTF-8 or contains a lone surrogate.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """Encodes each text; a word that occurs in several is segmented once. Raises what `encode` does."""
        known: dict[str, list[int]] = {"": []}
        rows = []
        for text in texts:
            ids: list[int] = []
            for word in self._words(normalize(text, self.normalization)):
                if (tokens := known.get(word)) is None:
                    tokens = known[word] = self._word_ids(word)
                ids += tokens
            rows.append(np.array(ids, np.int32))
        return rows

    def encode_with_offsets(self, text: str | bytes) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
        """Encodes a text and locates its tokens in the bytes of the normalized text. Raises what `encode` does."""
        text = normalize(text, self.normalization)
        byte_of = byte_starts(text).tolist()
        known: dict[str, Sequence[Segment]] = {"": []}
        ids: list[int] = []
        spans: list[tuple[int, int]] = []
        for start, word in self._words_with_starts(text):
            if word not in known:
                known[word] = self._segments(word)
            at = byte_of[start] if start >= 0 else start
            for token, size in known[word]:
                ids.append(token)
                spans.append((at, at + size))
                at += size
        return np.array(ids, np.int32), np.array(spans, np.int64).reshape(-1, 2).clip(min=0)

    def _words(self, text: str) -> Iterable[str]:
        """The words of a normalized text."""
        return pretokenize(text, self.pattern, single_digits=self.single_digits)

    def _words_with_starts(self, text: str) -> Iterable[tuple[int, str]]:
        """The words, each after the index of its first character; a prefix that is not part of the text has negative ones."""
        return pretokenize_with_starts(text, self.pattern, single_digits=self.single_digits)


def word_counts(
    texts: Iterable[str | bytes], pattern: str, *, normalization: Sequence[Step] = (), single_digits: bool = False
) -> Counter[str]:
    """Counts the words of texts, in order of first occurrence.

    Args:
        texts: Each is read once. No word crosses from one into the next.
        pattern: As `pretokenize` takes it.
        normalization: The steps that are applied to each text first.
        single_digits: Whether every digit is a word.

    Raises:
        ValueError: A single text is given, a text is not UTF-8 or contains a lone surrogate, or the pattern is invalid.
    """
    counts: Counter[str] = Counter()
    for text in sequence_of_texts(texts):
        counts.update(pretokenize(normalize(text, normalization), pattern, single_digits=single_digits))
    counts.pop("", None)  # a pattern may match the empty string
    return counts


def sequence_of_texts(texts: Iterable[str | bytes]) -> Iterable[str | bytes]:
    """Returns the texts.

    Raises:
        ValueError: A single text is given, whose characters would be taken for texts.
    """
    if isinstance(texts, str | bytes):
        raise ValueError("expected a sequence of texts, not one text; put it into a list")
    return texts


def byte_starts(text: str) -> Int64[np.ndarray, " starts"]:
    """The first byte of each character in the UTF-8 encoding, and after them the number of bytes."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
