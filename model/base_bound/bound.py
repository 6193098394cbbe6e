"""Lower bound of the RoPE base: which bases keep B_m non-negative at every distance of a context.

    B_m(b) = sum_{i=0}^{d/2-1} cos(m b^(-2i/d))

is, up to a factor, by how much more a query attends to a similar key than to a random one m tokens away (Men et al.
2024, "Base of RoPE Bounds Context Length", arXiv:2405.14591, equations 10 and 11; Su, kexue.fm/archives/10122). A
base b is feasible for N tokens if B_m(b) >= 0 for every integer 0 <= m < N. The feasible bases are a few islands and
then a ray, so a grid or a bisection finds whatever its spacing lets it find. Here every interval of u = ln b is decided
by the certificates of certificates.py instead.

Distances are taken in blocks, each of which restricts the intervals that the blocks before it left. An interval is
walked through in steps as wide as the arcs can decide but for a small share of the distances; that share is decided by
Taylor bounds and bisection: infeasible where one distance stays negative, feasible where all stay positive. At the edge
of an island the reach of those bounds grows as fast as the interval shrinks, so that convergence is quadratic. Float64
on the host, and float32 where its rounding error is part of the bound.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from leadline.model.base_bound.certificates import Pairs, decided, open_distances
from leadline.model.positions.frequencies import exponents

RESOLUTION = 1e-9  # in ln b: islands and gaps narrower than this are not resolved
# Distances are taken in blocks that grow by half from the first to the last of these sizes: small distances rule out most
# bases at little cost, and a step is as wide as the largest distance of a block allows.
FIRST_BLOCK, LAST_BLOCK = 64, 131072
# The share of a block that the arcs may leave open at balanced cost: one open distance costs as much as some 200 others.
OPEN_SHARE = 0.005

Interval = tuple[float, float]


class BaseBound(NamedTuple):
    """The feasible bases: the bounded islands (low, high) in rising order, then every base above
    `largest_infeasible`."""

    infimum: float
    largest_infeasible: float
    islands: list[Interval]


class FeasibleBases(NamedTuple):
    """The intervals of ln b in which B_m >= 0 at every `every`-th distance 0 <= m < length."""

    head_dim: int
    every: int
    length: int
    intervals: tuple[Interval, ...]


def all_bases(head_dim: int, *, every: int = 1) -> FeasibleBases:
    """Every b >= 1: where the search begins, with one token. ValueError for a head dim that is odd or not positive, or
    an `every` that is not positive."""
    exponents(head_dim)
    if every < 1:
        raise ValueError(f"every must be at least 1, not {every}")
    return FeasibleBases(head_dim, every, 1, ((0.0, np.inf),))


def restrictions(bases: FeasibleBases, length: int) -> Iterator[FeasibleBases]:
    """The bases that are feasible for more and more tokens, up to `length`, block by block.

    What is reported as feasible is so but for gaps below RESOLUTION, which are not seen, and its edges lie within a
    few RESOLUTION (relative) of the true ones. If every b >= 1 is feasible (length <= 2) both bounds are 1. With d = 2,
    B_m = cos m whatever the base: from length 3 on no base is feasible and both bounds are infinite. Time grows about
    as length^1.4; d = 128 takes seconds of a core to 131072 tokens, two minutes to a million.
    """
    head_dim, every, done, intervals = bases
    pairs = Pairs(exponents(head_dim), every)
    for start, stop in _blocks(-(-done // every), -(-length // every)):
        intervals = tuple(_restricted(intervals, start, stop, pairs))
        done = min(stop * every, length)
        yield FeasibleBases(head_dim, every, done, intervals)
    if length > done:
        yield FeasibleBases(head_dim, every, length, intervals)


def restricted(bases: FeasibleBases, length: int) -> FeasibleBases:
    """The last of `restrictions`."""
    for further in restrictions(bases, length):
        bases = further
    return bases


def parts(bases: FeasibleBases, length: int, count: int) -> list[FeasibleBases]:
    """The same bases in at most `count` pieces of about equal work up to `length`, for each to be restricted by itself."""
    head_dim, every, done, intervals = bases
    ray = _certified_ray(-(-done // every), -(-length // every), Pairs(exponents(head_dim), every))
    share = sum(max(min(high, ray) - low, 0) for low, high in intervals) / count
    pieces: list[list[Interval]] = [[]]
    room = share
    for low, high in intervals:
        while min(high, ray) - low > room and len(pieces) < count:
            pieces[-1].append((low, low + room))
            low += room
            pieces.append([])
            room = share
        pieces[-1].append((low, high))
        room -= min(high, ray) - low
    return [FeasibleBases(head_dim, every, done, tuple(piece)) for piece in pieces if piece]


def joined(pieces: Sequence[FeasibleBases]) -> FeasibleBases:
    """The bases of `parts` in one again."""
    merged = _merged([interval for piece in pieces for interval in piece.intervals])
    return pieces[0]._replace(intervals=tuple(merged))


def bound_of(bases: FeasibleBases) -> BaseBound:
    """The bounds of feasible bases, as bases."""
    edges = [(float(np.exp(low)), float(np.exp(high))) for low, high in bases.intervals] or [(np.inf, np.inf)]
    return BaseBound(infimum=edges[0][0], largest_infeasible=edges[-1][0], islands=edges[:-1])


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(max(start * 3 // 2, FIRST_BLOCK), start + LAST_BLOCK, end)
        yield start, stop
        start = stop


def _restricted(feasible: Sequence[Interval], start: int, stop: int, pairs: Pairs) -> list[Interval]:
    """The parts of the intervals in which B_m >= 0 for every start <= m < stop as well."""
    ray = _certified_ray(start, stop, pairs)
    if np.isinf(ray):
        return []
    pieces = [(max(low, ray), high) for low, high in feasible if high > ray]
    turn = 1.0
    for low, high in feasible:
        if low < ray:
            intervals, turn = _walk(low, min(high, ray), turn, start, stop, pairs)
            pieces += intervals
    return _merged(pieces)


def _certified_ray(start: int, stop: int, pairs: Pairs) -> float:
    """A ln b above which B_m > 0 for every start <= m < stop; infinite if there is none, which is the case for head
    dim 2 only.

    Pair 0 turns alike at every base, so its smallest cosine is known. Any other pair contributes at least cos(N w_i) if
    N w_i <= pi and -1 if not. That rises with b: here, and only here, bisection finds the right thing.
    """
    worst = np.cos(pairs.every * np.arange(start, stop)).min()

    def margin(u: float) -> float:
        return worst + np.cos(np.minimum(stop * pairs.frequencies(u)[1:], np.pi)).sum()

    if worst + len(pairs.exponents) - 1 <= 0:
        return np.inf
    low, high = 0.0, 1.0
    while margin(high) <= 0:
        low, high = high, 2 * high
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if margin(middle) > 0 else (middle, high)
    return high


def _walk(low: float, high: float, turn: float, start: int, stop: int, pairs: Pairs) -> tuple[list[Interval], float]:
    """The parts of [low, high] in ln b where B_m >= 0 for every start <= m < stop, some of them adjacent; and the turn.

    `turn` is how far, in radians, the pair that turns most may turn to either side within a step: d(m w_i)/du =
    m c_i e^(-c_i u) is at most m / (e u). It follows the share of distances that the steps left open.
    """
    feasible = []
    while low < high:
        top = min(high, low + 2 * turn * math.e * max(low, 1.0) / (stop * pairs.every))
        left = open_distances(low, top, start, stop, pairs)
        feasible += _bisected(low, top, left, pairs) if left.size else [(low, top)]
        share = left.size / (stop - start)
        if share > OPEN_SHARE:
            turn = max(0.8 * turn, 0.1)  # where few bases are feasible, shorter steps leave no fewer distances open
        elif share < OPEN_SHARE / 2 and top < high:  # a step cut short by the end of an island says nothing of a whole one
            turn *= 1.2
        low = top
    return feasible, turn


def _bisected(low: float, high: float, distances: Float64[np.ndarray, " open"], pairs: Pairs) -> list[Interval]:
    """The parts of [low, high] in ln b where B_m >= 0 for all `distances`; unordered, some of them adjacent."""
    feasible = []
    pending = [(low, high, distances)]
    while pending:
        low, high, distances = pending.pop()
        if distances.size == 0:
            feasible.append((low, high))
        elif high - low >= RESOLUTION:
            decision = decided(low, high, distances, pairs)
            if decision.feasible:
                feasible.append(decision.certain)
            if low < decision.certain[0]:
                pending.append((low, decision.certain[0], distances[decision.open_below]))
            if decision.certain[1] < high:
                pending.append((decision.certain[1], high, distances[decision.open_above]))
    return [(low, high) for low, high in feasible if low < high]


def _merged(pieces: list[Interval]) -> list[Interval]:
    """Sorted, and joined where the gap is below the resolution."""
    merged: list[Interval] = []
    for low, high in sorted(pieces):
        if merged and low - merged[-1][1] <= 2 * RESOLUTION:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged
