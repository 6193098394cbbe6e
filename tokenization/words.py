"""Words of a text: how often each occurs, and the ids of all where each word's ids do not depend on its neighbours."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Int32, Int64

from tokenization.normalization import Step, normalized
from tokenization.pretokenization import cut
from tokenization.text import characters

# An id, and the first and the one behind the last of the characters of the word that it stands for.
Segment = tuple[int, int, int]


def word_counts(
    texts: Iterable[str | bytes], pattern: str, *, normalization: Sequence[Step] = (), single_digits: bool = False
) -> Counter[str]:
    """How often each word, or other piece that no token crosses, occurs in the texts, in the order in which they are met first.

    Raises ValueError for one text in place of several, a text that is not UTF-8 or has a lone surrogate, and a bad pattern.
    """
    if isinstance(texts, str | bytes):
        raise ValueError("give a sequence of texts; this is one text")
    found: Counter[str] = Counter()
    for text in texts:
        found.update(cut(normalized(characters(text), normalization), pattern, single_digits=single_digits))
    found.pop("", None)  # a pattern of one's own may match nothing
    return found


def encode_words(words: Iterable[str], segments: Callable[[str], Sequence[Segment]]) -> Int32[np.ndarray, "T"]:
    """The ids of the words in order; every distinct word is cut into segments once."""
    known: dict[str, list[int]] = {}
    ids: list[int] = []
    for word in filter(None, words):
        if word not in known:
            known[word] = [token for token, _, _ in segments(word)]
        ids += known[word]
    return np.array(ids, np.int32)


def encode_places(
    text: str, placed: Iterable[tuple[int, str]], segments: Callable[[str], Sequence[Segment]]
) -> tuple[Int32[np.ndarray, "T"], Int64[np.ndarray, "T 2"]]:
    """The ids of the words in order, and where in the UTF-8 bytes of the text each begins and ends.

    `placed` are the words, each behind the index of its first character, which is negative for what stands before the text.
    """
    known: dict[str, Sequence[Segment]] = {}
    found: list[Segment] = []
    for start, word in placed:
        if word and word not in known:
            known[word] = segments(word)
        found += [(token, start + first, start + end) for token, first, end in known.get(word, ())]
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), byte_starts(text)[table[:, 1:].clip(min=0)]


def byte_starts(text: str) -> Int64[np.ndarray, " starts"]:
    """At which byte of the UTF-8 encoding each character begins, and behind them the number of bytes."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
