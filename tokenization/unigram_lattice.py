"""All ways to cut a string into pieces of a unigram model: the best of them, the n best, one at random, the sum over all.

With log probability s_p of a piece p, a segmentation x has log probability s(x), the sum of s_p over its pieces (Kudo 2018,
section 3.2). The lattice has a node before, between and behind the characters, and an arc for every piece that reads like the
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
    """A piece in its place: characters start to end (exclusive), the id of the piece and its log probability, in nats."""

    start: int
    end: int
    token: int
    score: float


class Pieces(NamedTuple):
    """What a lattice is made of.

    Attributes:
        known: id and log probability of every piece.
        longest: characters of the longest piece.
        unknown: id and log probability of a character that is no piece.
    """

    known: Mapping[str, tuple[int, float]]
    longest: int
    unknown: tuple[int, float]


Lattice = list[list[Arc]]  # entry e holds the arcs that end behind character e, in ascending order of their start


def arcs(text: str, pieces: Pieces, end: int, first: int = 0) -> Iterator[Arc]:
    """The arcs that end behind a character and start at the character `first` or later, in ascending order of their start."""
    for start in range(max(first, end - pieces.longest), end - 1):
        if (found := pieces.known.get(text[start:end])) is not None:
            yield Arc(start, end, *found)
    yield Arc(end - 1, end, *pieces.known.get(text[end - 1 : end], pieces.unknown))


def lattice(words: Sequence[str], pieces: Pieces) -> Lattice:
    """The lattice of the words joined, where no piece crosses from one word into the next."""
    text = "".join(words)
    found: Lattice = [[]]
    for word in words:
        first = len(found) - 1
        found += [list(arcs(text, pieces, end, first)) for end in range(first + 1, first + len(word) + 1)]
    return found


def viterbi(text: str, pieces: Pieces) -> list[Arc]:
    """The arcs of the best segmentation.

    Of equally good ones, the last piece is the longest, then the one before it. The time grows with the characters times the
    length of the longest piece.
    """
    known, unknown = pieces.known, pieces.unknown
    best, starts = [0.0], [0]
    for end in range(1, len(text) + 1):  # without `arcs` and its objects, which would double the time
        most, first = -inf, end
        for start in range(max(0, end - pieces.longest), end):
            found = known.get(text[start:end]) or (unknown if start == end - 1 else None)
            if found is not None and best[start] + found[1] > most:
                most, first = best[start] + found[1], start
        best.append(most)
        starts.append(first)
    path, end = list[Arc](), len(text)
    while end > 0:
        path.append(Arc(starts[end], end, *known.get(text[starts[end] : end], unknown)))
        end = starts[end]
    return path[::-1]


def forward(arcs_by_end: Lattice, alpha: float = 1.0) -> list[float]:
    """For each node, the log of the sum of exp(alpha s(x)) over all segmentations x of what stands before it."""
    found = [0.0]
    for ending in arcs_by_end[1:]:
        logs = [found[arc.start] + alpha * arc.score for arc in ending]
        most = max(logs)
        found.append(most + log(sum(exp(value - most) for value in logs)))
    return found


def sample(arcs_by_end: Lattice, sums: Sequence[float], alpha: float, generator: np.random.Generator) -> list[Arc]:
    """One segmentation, drawn with probability proportional to exp(alpha s(x)) from all (forward filtering, backward sampling).

    `sums` are those of `forward` with the same alpha. One number of the generator is used for each piece.
    """
    found: list[Arc] = []
    end = len(arcs_by_end) - 1
    while end > 0:
        ending = arcs_by_end[end]
        shares = accumulate(exp(sums[arc.start] + alpha * arc.score - sums[end]) for arc in ending)
        drawn = bisect_right(list(shares), generator.random())
        found.append(ending[min(drawn, len(ending) - 1)])  # rounding may leave the shares a little short of 1
        end = found[-1].start
    return found[::-1]


def ranked(arcs_by_end: Lattice) -> Iterator[tuple[list[Arc], float]]:
    """All segmentations with their log probabilities, the best first.

    A* from the end to the start, where the best score of what stands before a node is known exactly, so nothing is expanded
    that is not among the best. Equally good ones come in the order in which they were found.
    """
    best = [0.0]
    for ending in arcs_by_end[1:]:
        best.append(max(best[arc.start] + arc.score for arc in ending))
    serial = count()
    heap: list[tuple[float, int, int, float, tuple]] = [(-best[-1], next(serial), len(arcs_by_end) - 1, 0.0, ())]
    while heap:
        _, _, node, behind, tail = heapq.heappop(heap)
        if node == 0:
            yield list(_unwound(tail)), behind
        for arc in arcs_by_end[node]:
            score = arc.score + behind
            heapq.heappush(heap, (-(best[arc.start] + score), next(serial), arc.start, score, (arc, tail)))


def n_best(arcs_by_end: Lattice, n: int) -> list[tuple[list[Arc], float]]:
    """The n best segmentations with their log probabilities, or all if there are fewer."""
    return list(islice(ranked(arcs_by_end), n))


def _unwound(tail: tuple) -> Iterator[Arc]:
    while tail:
        arc, tail = tail
        yield arc
