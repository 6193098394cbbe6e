"""Learning the merges of byte pair encoding from counts of words (Gage 1994; Sennrich et al. 2016, arXiv:1508.07909).

Every word starts as symbols of an alphabet. The most frequent pair of neighbours becomes one symbol, again and again. Of
equally frequent pairs, the one with the smaller left id is merged first, then the one with the smaller right id, as in the
`tokenizers` library. No merge depends on a later one, so the merges of a small vocabulary are the first of a larger one.
"""

import gc
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal

from leadline.tokenization.normalization import to_utf8

# bytes: the 256 bytes of UTF-8. characters: those of the corpus, and the symbol END after each word.
Unit = Literal["bytes", "characters"]
END = "</w>"

# The bytes that GPT-2 prints as themselves, then the others, which it prints as U+0100 and following (Radford et al. 2019).
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_ORDER = bytes(_PRINTED + sorted(set(range(256)) - set(_PRINTED)))


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One merge and the corpus after it.

    Attributes:
        pair: The ids that are merged. Ids count from 0: the alphabet, then the result of each merge.
        parts: The text of the two: bytes, or characters.
        count: How often the pair occurred before the merge.
        tokens: The number of symbols of the corpus after it.
        tokens_per_word: The same for each word of the corpus.
    """

    pair: tuple[int, int]
    parts: tuple[bytes, bytes] | tuple[str, str]
    count: int
    tokens: int
    tokens_per_word: float


def alphabet_of(words: Iterable[str], unit: Unit) -> tuple[bytes, ...] | tuple[str, ...]:
    """The symbols that merging starts from, in the order of their ids.

    Bytes are in the order of the characters by which GPT-2 prints them, as in published vocabularies. Characters are in the
    order of their code points, and END is the last.
    """
    if unit == "bytes":
        return tuple(bytes([byte]) for byte in BYTE_ORDER)
    return (*sorted(set().union(*words)), END)


def merge_steps(words: Mapping[str, int], unit: Unit) -> Iterator[MergeStep]:
    """Yields every merge of the words in order, until each word is one symbol.

    Each merge makes a new piece, never one that other parts made before. A merge visits only the words that contain its pair;
    the most frequent pair comes from a heap whose outdated counts are corrected when they reach its top.

    Args:
        words: How often each word occurs, at least once.
        unit: The alphabet.
    """
    pieces: list = list(alphabet_of(words, unit))
    symbols = _symbol_strings(words, unit)
    weights = list(words.values())
    counts: defaultdict[str, int] = defaultdict(int)
    where: defaultdict[str, list[int]] = defaultdict(list)
    for i, word in enumerate(symbols):
        for pair in map("".join, pairwise(word)):
            counts[pair] += weights[i]
            where[pair].append(i)
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    total, tokens = sum(weights), sum(len(word) * weight for word, weight in zip(symbols, weights, strict=True))
    while best := _most_frequent(heap, counts):
        left, right = map(ord, best)
        count, parts = counts[best], (pieces[left], pieces[right])
        changes, replaced = _merge(symbols, weights, where.pop(best), best, chr(len(pieces)), where)
        pieces.append(parts[0] + parts[1])
        tokens -= replaced
        for pair, change in changes.items():
            counts[pair] += change
            if change > 0:
                heapq.heappush(heap, (-counts[pair], pair))
        del counts[best]
        yield MergeStep((left, right), parts, count, tokens, tokens / total)


def train_merges(words: Mapping[str, int], pieces: int, unit: Unit) -> list[MergeStep]:
    """The first merges of `merge_steps`, up to a number of pieces.

    Args:
        words: How often each word occurs.
        pieces: The number of pieces, the alphabet included and specials not.
        unit: The alphabet.

    Raises:
        ValueError: There are fewer pieces than the alphabet has, or more than the corpus has.
    """
    start = len(alphabet_of(words, unit))
    if pieces < start:
        raise ValueError(f"{pieces} pieces do not hold the alphabet of {start} {unit}; ask for at least {start}")
    with _cycle_collector_paused():
        steps = list(islice(merge_steps(words, unit), pieces - start))
    if len(steps) < pieces - start:
        most = start + len(steps)
        raise ValueError(
            f"the corpus has {most} pieces (specials not counted), not {pieces}: each of its {len(words)} distinct words is "
            f"one piece by then; ask for at most {most}, or give more text"
        )
    return steps


@contextmanager
def _cycle_collector_paused() -> Iterator[None]:
    """Pauses Python's collector of reference cycles, which takes a sixth of the time of training and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _symbol_strings(words: Iterable[str], unit: Unit) -> list[str]:
    """Each word as a string in which character i is symbol i, so that string methods find and replace the pairs."""
    if unit == "bytes":
        place = bytes(BYTE_ORDER.index(byte) for byte in range(256))
        return [to_utf8(word).translate(place).decode("latin-1") for word in words]
    order = alphabet_of(words, unit)
    place = {ord(symbol): i for i, symbol in enumerate(order[:-1]) if isinstance(symbol, str)}
    return [word.translate(place) + chr(len(order) - 1) for word in words]


def _most_frequent(heap: list[tuple[int, str]], counts: Mapping[str, int]) -> str | None:
    """Pops the most frequent pair. An entry with an outdated count is pushed back with the present one."""
    while heap:
        count, pair = heapq.heappop(heap)
        present = counts.get(pair, 0)
        if present == -count:
            return pair
        if 0 < present < -count:
            heapq.heappush(heap, (-present, pair))
    return None


def _merge(
    symbols: list[str], weights: Sequence[int], places: Iterable[int], pair: str, result: str, where: dict[str, list[int]]
) -> tuple[dict[str, int], int]:
    """Replaces a pair in words.

    Args:
        symbols: All words; changed in place.
        weights: How often each word occurs.
        places: The words that contain, or contained, the pair; repeated once for each pair that a word had.
        pair: The two symbols.
        result: The symbol that replaces them.
        where: The words of each pair; changed in place.

    Returns:
        How the counts of other pairs change, and how often the pair was replaced.
    """
    left, right = pair
    befores, afters = defaultdict[str, int](int), defaultdict[str, int](int)
    before_at, after_at = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    replaced = 0
    for i in dict.fromkeys(places):
        first, *rest = symbols[i].split(pair)
        weight = weights[i]
        symbols[i] = result.join([first, *rest])
        replaced += len(rest) * weight
        before, last = first[-1:], len(rest) - 1
        for n, part in enumerate(rest):
            after = part[:1] or (left if n < last else "")  # the left symbol of the next pair, if it follows at once
            if before:
                befores[before] += weight
                before_at[before].append(i)
            if after:
                afters[after] += weight
                after_at[after].append(i)
            before = part[-1:] or result
    changes: defaultdict[str, int] = defaultdict(int)
    for symbol, count in befores.items():
        changes[symbol + left] -= count
        changes[symbol + result] += count
        where[symbol + result] += before_at[symbol]
    for symbol, count in afters.items():
        changes[right + symbol] -= count
        changes[result + symbol] += count
        where[result + symbol] += after_at[symbol]
    return changes, replaced
