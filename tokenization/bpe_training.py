"""Learning the merges of byte pair encoding (Gage 1994; Sennrich et al. 2016, arXiv:1508.07909) from counted pieces of text.

Every piece starts as symbols of an alphabet. Again and again the pair of neighbours that is most frequent becomes one symbol.
Of equally frequent pairs it is the one with the smaller left id, then the smaller right id, which is what the library
`tokenizers` does. A merge depends on no later one, so the merges of a small vocabulary are the first of a larger one.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal

from tokenization.garbage import no_cycles
from tokenization.text import utf8

# bytes: the 256 bytes of UTF-8. characters: those of the corpus, and behind each piece the symbol END.
Unit = Literal["bytes", "characters"]
END = "</w>"

# Bytes that GPT-2 shows as themselves, in order; the others, shown as characters from U+0100 on, follow (Radford et al. 2019).
_SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_ORDER = bytes(_SHOWN + sorted(set(range(256)) - set(_SHOWN)))


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One merge and the corpus after it. Ids count from 0: the alphabet, then what each merge makes."""

    pair: tuple[int, int]
    parts: tuple[bytes, bytes] | tuple[str, str]  # bytes of byte-level pieces, characters of the others
    count: int  # of the pair, before the merge
    tokens: int
    tokens_per_word: float  # words being the pieces that no merge crosses


def alphabet_of(words: Iterable[str], unit: Unit) -> tuple[bytes, ...] | tuple[str, ...]:
    """The symbols that merging starts from, in the order of their ids.

    Bytes are in the order of the characters by which GPT-2 shows them, as in published vocabularies. Characters are in the
    order of their code points, and END is the last.
    """
    if unit == "bytes":
        return tuple(bytes([byte]) for byte in BYTE_ORDER)
    return (*sorted(set().union(*words)), END)


def merge_steps(words: Mapping[str, int], unit: Unit) -> Iterator[MergeStep]:
    """Every merge that the words have, in order, until each word is one symbol.

    Each makes a new piece, never one that other parts made before: what lies within a piece was merged as if it stood alone.

    Args:
        words: how often each piece occurs, at least once.
        unit: what the alphabet consists of.
    """
    pieces: list = list(alphabet_of(words, unit))
    symbols = _symbols(words, unit)
    weights = list(words.values())
    counts: defaultdict[str, int] = defaultdict(int)
    where: defaultdict[str, list[int]] = defaultdict(list)
    for i, word in enumerate(symbols):
        for pair in map("".join, pairwise(word)):
            counts[pair] += weights[i]
            where[pair].append(i)
    waiting = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(waiting)
    total, tokens = sum(weights), sum(len(word) * weight for word, weight in zip(symbols, weights, strict=True))
    while best := _most_frequent(waiting, counts):
        left, right = map(ord, best)
        count, parts = counts[best], (pieces[left], pieces[right])
        changes, merged = _merge(symbols, weights, where.pop(best), best, chr(len(pieces)), where)
        pieces.append(parts[0] + parts[1])
        tokens -= merged
        for pair, change in changes.items():
            counts[pair] += change
            if change > 0:
                heapq.heappush(waiting, (-counts[pair], pair))
        del counts[best]
        yield MergeStep((left, right), parts, count, tokens, tokens / total)


def train_merges(words: Mapping[str, int], pieces: int, unit: Unit) -> list[MergeStep]:
    """The first steps of `merge_steps`, until there are that many pieces, the alphabet included.

    Raises ValueError for fewer pieces than the alphabet has, and where the corpus is exhausted before there are so many.
    """
    start = len(alphabet_of(words, unit))
    if pieces < start:
        raise ValueError(f"{pieces} pieces do not hold the alphabet of {start} {unit}; ask for at least {start}")
    with no_cycles():
        steps = list(islice(merge_steps(words, unit), pieces - start))
    if len(steps) < pieces - start:
        most = start + len(steps)
        raise ValueError(
            f"the corpus has {most} pieces (specials not counted), not {pieces}: then each of its {len(words)} different words "
            f"is one piece; ask for at most {most}, or give more text"
        )
    return steps


def _symbols(words: Iterable[str], unit: Unit) -> list[str]:
    """Each word as a string whose characters are numbered like its symbols, so that strings find and replace the pairs."""
    if unit == "bytes":
        place = bytes(BYTE_ORDER.index(byte) for byte in range(256))
        return [utf8(word).translate(place).decode("latin-1") for word in words]
    order = alphabet_of(words, unit)
    place = {ord(symbol): i for i, symbol in enumerate(order[:-1]) if isinstance(symbol, str)}
    return [word.translate(place) + chr(len(order) - 1) for word in words]


def _most_frequent(waiting: list[tuple[int, str]], counts: Mapping[str, int]) -> str | None:
    """Takes the best pair off the heap. What lies there with an outdated count is put back with the present one."""
    while waiting:
        count, pair = heapq.heappop(waiting)
        present = counts.get(pair, 0)
        if present == -count:
            return pair
        if 0 < present < -count:
            heapq.heappush(waiting, (-present, pair))
    return None


def _merge(
    symbols: list[str], weights: Sequence[int], places: Iterable[int], pair: str, made: str, where: dict[str, list[int]]
) -> tuple[dict[str, int], int]:
    """Replaces the pair in the words at these places; gives how other pairs' counts change, and how often it was replaced."""
    left, right = pair
    befores, afters = defaultdict[str, int](int), defaultdict[str, int](int)
    before_at, after_at = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    merged = 0
    for i in dict.fromkeys(places):  # a word stands there once for every pair that it had
        first, *rest = symbols[i].split(pair)
        weight = weights[i]
        symbols[i] = made.join([first, *rest])
        merged += len(rest) * weight
        before, last = first[-1:], len(rest) - 1
        for n, part in enumerate(rest):
            after = part[:1] or (left if n < last else "")  # nothing between two merges: the next one's left is behind this
            if before:
                befores[before] += weight
                before_at[before].append(i)
            if after:
                afters[after] += weight
                after_at[after].append(i)
            before = part[-1:] or made
    changes: defaultdict[str, int] = defaultdict(int)
    for symbol, count in befores.items():
        changes[symbol + left] -= count
        changes[symbol + made] += count
        where[symbol + made] += before_at[symbol]
    for symbol, count in afters.items():
        changes[right + symbol] -= count
        changes[made + symbol] += count
        where[made + symbol] += after_at[symbol]
    return changes, merged
