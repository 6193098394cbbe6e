"""The segmentations of a string into pieces of a unigram model: the best, the n best, a random one, and the sum over all.

A segmentation x has log probability s(x), the sum of the log probabilities of its pieces (Kudo 2018, arXiv:1804.10959,
section 3.2). The lattice has a node before, between and after the characters, and an arc for every piece that matches the
characters that it spans.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, count, islice
from math import exp, inf, log
from typing import NamedTuple

import numpy as np


class Arc(NamedTuple):
    """A piece at a place: its characters from start to end (exclusive), its id, and its log probability in nats."""

    start: int
    end: int
    token: int
    score: float


class Pieces(NamedTuple):
    """The pieces of a model.

    Attributes:
        known: The id and log probability of every piece.
        longest: The number of characters of the longest piece.
        unknown: The id and log probability of a character that is no piece.
    """

    known: Mapping[str, tuple[int, float]]
    longest: int
    unknown: tuple[int, float]


Lattice = list[list[Arc]]  # entry e holds the arcs that end after character e, in ascending order of their start


def arcs_to(text: str, pieces: Pieces, end: int, first: int = 0) -> Iterator[Arc]:
    """The arcs that end after a character and start at the character `first` or later, in ascending order of their start."""
    for start in range(max(first, end - pieces.longest), end - 1):
        if (piece := pieces.known.get(text[start:end])) is not None:
            yield Arc(start, end, *piece)
    yield Arc(end - 1, end, *pieces.known.get(text[end - 1 : end], pieces.unknown))


def lattice(words: Sequence[str], pieces: Pieces) -> Lattice:
    """The lattice of words that are joined, where no piece crosses from one word into the next."""
    text = "".join(words)
    by_end: Lattice = [[]]
    for word in words:
        first = len(by_end) - 1
        by_end += [list(arcs_to(text, pieces, end, first)) for end in range(first + 1, first + len(word) + 1)]
    return by_end


def viterbi(text: str, pieces: Pieces) -> list[Arc]:
    """The best segmentation (Viterbi 1967), O(n k) for n characters and pieces of at most k.

    Of equally good segmentations, that with the longest last piece, then with the longest piece before it, and so on.
    """
    known, unknown = pieces.known, pieces.unknown
    best, starts = [0.0], [0]
    for end in range(1, len(text) + 1):  # without `arcs_to`, whose objects would double the time
        most, first = -inf, end
        for start in range(max(0, end - pieces.longest), end):
            piece = known.get(text[start:end]) or (unknown if start == end - 1 else None)
            if piece is not None and best[start] + piece[1] > most:
                most, first = best[start] + piece[1], start
        best.append(most)
        starts.append(first)
    path, end = list[Arc](), len(text)
    while end > 0:
        path.append(Arc(starts[end], end, *known.get(text[starts[end] : end], unknown)))
        end = starts[end]
    return path[::-1]


def forward(by_end: Lattice, alpha: float = 1.0) -> list[float]:
    """For each node, the log of the sum of exp(alpha s(x)) over all segmentations x of the text before it."""
    sums = [0.0]
    for ending in by_end[1:]:
        logs = [sums[arc.start] + alpha * arc.score for arc in ending]
        most = max(logs)
        sums.append(most + log(sum(exp(value - most) for value in logs)))
    return sums


def sample(by_end: Lattice, sums: Sequence[float], alpha: float, generator: np.random.Generator) -> list[Arc]:
    """Draws one segmentation with probability proportional to exp(alpha s(x)) (forward filtering, backward sampling).

    Args:
        by_end: The lattice.
        sums: What `forward` returns for the same alpha.
        alpha: The inverse temperature.
        generator: The source of randomness; one number is drawn for each piece.
    """
    path: list[Arc] = []
    end = len(by_end) - 1
    while end > 0:
        ending = by_end[end]
        shares = accumulate(exp(sums[arc.start] + alpha * arc.score - sums[end]) for arc in ending)
        drawn = bisect_right(list(shares), generator.random())
        path.append(ending[min(drawn, len(ending) - 1)])  # rounding may leave the shares slightly short of 1
        end = path[-1].start
    return path[::-1]


def ranked(by_end: Lattice) -> Iterator[tuple[list[Arc], float]]:
    """Yields all segmentations with their log probabilities, the best first.

    A* from the end to the start. The best score of the text before a node is known exactly, so only partial segmentations that
    can be among the best are expanded. Equally good ones come in the order in which they were reached.
    """
    best = [0.0]
    for ending in by_end[1:]:
        best.append(max(best[arc.start] + arc.score for arc in ending))
    serial = count()
    heap: list[tuple[float, int, int, float, tuple]] = [(-best[-1], next(serial), len(by_end) - 1, 0.0, ())]
    while heap:
        _, _, node, score_after, tail = heapq.heappop(heap)
        if node == 0:
            yield list(_unlinked(tail)), score_after
        for arc in by_end[node]:
            score = arc.score + score_after
            heapq.heappush(heap, (-(best[arc.start] + score), next(serial), arc.start, score, (arc, tail)))


def n_best(by_end: Lattice, n: int) -> list[tuple[list[Arc], float]]:
    """The n best segmentations with their log probabilities, or all if there are fewer."""
    return list(islice(ranked(by_end), n))


def _unlinked(tail: tuple) -> Iterator[Arc]:
    while tail:
        arc, tail = tail
        yield arc
