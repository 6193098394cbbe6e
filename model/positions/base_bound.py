"""Lower bound of the RoPE base: which bases keep B_m non-negative at every distance of a context.

    B_m(b) = sum_{i=0}^{d/2-1} cos(m b^(-2i/d))

is, up to a factor, by how much more a query attends to a similar key than to a random one m tokens away (Men et al. 2024,
"Base of RoPE Bounds Context Length", arXiv:2405.14591, equations 10 and 11; Su, kexue.fm/archives/10122). A base b is feasible for
N tokens if B_m(b) >= 0 for every integer 0 <= m < N. The feasible bases are no ray but a few islands and then a ray, so that a grid
or a bisection finds whatever its spacing lets it find. Here every interval is decided by a Taylor bound instead.

Method. Let u = ln b, w_i = exp(-c_i u), c_i = 2i/d. Then

    B_m'  = sum_i c_i m w_i sin(m w_i)
    B_m'' = -sum_i c_i^2 (m w_i sin(m w_i) + (m w_i)^2 cos(m w_i)),   |B_m''| <= sum_i c_i^2 ((m w_i)^2 + min(m w_i, 1/2))

(the last since |x sin x + x^2 cos x| <= x sqrt(1 + x^2)), and that bound only falls as u grows. Value and slope in the middle of an
interval of u thus certify a neighbourhood: infeasible if one m stays negative in it, feasible if all stay positive. What is left
on either side is bisected with the distances that are still open. At an edge this converges quadratically.

All m at once are two real matrix products: with m = a + c, cos(m w) = cos(aw) cos(cw) - sin(aw) sin(cw).
Everything is float64 on the host.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

FIRST_BLOCK = 64  # distances are taken in blocks [1, 64), [64, 128), ... so that small ones rule bases out cheaply
RESOLUTION = 1e-9  # in ln b: narrower islands and narrower gaps are not resolved


class BaseBound(NamedTuple):
    """The feasible bases: the bounded islands [low, high], and every base from `largest_infeasible` on."""

    infimum: float
    largest_infeasible: float
    islands: list[tuple[float, float]]


class Violations(NamedTuple):
    """Distances m with B_m < 0: the first one, how many, and the smallest B_m."""

    first: int
    count: int
    minimum: float


def geometric_frequencies(base: float, head_dim: int) -> Float64[np.ndarray, " pairs"]:
    """w_i = base^(-2i/d) for i = 0 ... d/2-1, in radians per token."""
    return float(base) ** -_exponents(head_dim)


def similarity_sums(frequencies: Float64[np.ndarray, " pairs"], length: int) -> Float64[np.ndarray, " length"]:
    """B_m = sum_i cos(m w_i) for all 0 <= m < length; of any frequencies, so also of scaled ones.

    About 4 * length * pairs operations in one matrix product. ValueError if length < 1.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    coarse, fine = _phases(frequencies, 0, length)
    sums = np.hstack([np.cos(coarse), -np.sin(coarse)]) @ np.hstack([np.cos(fine), np.sin(fine)]).T
    return sums.reshape(-1)[:length]


def violations(frequencies: Float64[np.ndarray, " pairs"], length: int) -> Violations | None:
    """The distances 0 <= m < length with B_m < 0, or None if there is none."""
    sums = similarity_sums(frequencies, length)
    negative = np.flatnonzero(sums < 0)
    if negative.size == 0:
        return None
    return Violations(first=int(negative[0]), count=int(negative.size), minimum=float(sums.min()))


def first_violation(base: float, head_dim: int, length: int) -> Violations | None:
    """`violations` of the plain RoPE frequencies of one base; None means that the base is feasible."""
    return violations(geometric_frequencies(base, head_dim), length)


def base_bound(head_dim: int, length: int) -> BaseBound:
    """The feasible bases b >= 1 for `length` tokens, d = head_dim.

    Reported islands and the ray are inside the feasible set, their edges within a few RESOLUTION (relative) of the true ones.
    If every b >= 1 is feasible (length <= 2), both bounds are 1. Head dim 2 has B_m = cos m at every base: from length 3 on no base
    is feasible and both bounds are infinite. ValueError for an odd or non-positive head dim or length < 1.
    """
    exponents = _exponents(head_dim)
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    feasible = [(0.0, np.inf)]
    for start, stop in _blocks(length):
        ray = _certified_ray(exponents, stop)
        pieces = [(ray, np.inf)] if ray < np.inf else []
        for low, high in feasible:
            if low < ray:
                pieces += _sweep(low, min(high, ray), exponents, start, stop)
        feasible = _merge(pieces)
    if not feasible:
        return BaseBound(infimum=np.inf, largest_infeasible=np.inf, islands=[])
    islands = [(float(np.exp(low)), float(np.exp(high))) for low, high in feasible[:-1]]
    return BaseBound(float(np.exp(feasible[0][0])), float(np.exp(feasible[-1][0])), islands)


def _exponents(head_dim: int) -> Float64[np.ndarray, " pairs"]:
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be even and positive, not {head_dim}")
    return np.arange(0, head_dim, 2) / head_dim


def _blocks(length: int) -> Iterator[tuple[int, int]]:
    start, stop = 1, min(FIRST_BLOCK, length)
    while start < length:
        yield start, stop
        start, stop = stop, min(2 * stop, length)


def _certified_ray(exponents: np.ndarray, stop: int) -> float:
    """A ln b from which on B_m > 0 for every 1 <= m < stop; infinite if there is none (head dim 2).

    Pair 0 turns by one radian a token at every base: its worst cosine is known. Any other pair contributes at least
    cos(N w_i) if N w_i <= pi and -1 if not, which rises with b: so bisection is allowed here, and only here.
    """
    worst = np.cos(np.arange(1, stop)).min()

    def margin(u: float) -> float:
        return worst + np.cos(np.minimum(stop * np.exp(-exponents[1:] * u), np.pi)).sum()

    low, high = 0.0, 1.0
    while margin(high) <= 0:
        low, high = high, 2 * high
        if high > 1e4:
            return np.inf
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if margin(middle) > 0 else (middle, high)
    return high


def _sweep(low: float, high: float, exponents: np.ndarray, start: int, stop: int) -> list[tuple[float, float]]:
    """The parts of low <= ln b <= high where B_m >= 0 for every start <= m < stop, in any order and possibly adjacent."""
    feasible = []
    everything = np.arange(start, stop, dtype=np.float64)
    pending = [(low, high, everything)]
    while pending:
        low, high, distances = pending.pop()
        half = (high - low) / 2
        if half < RESOLUTION / 2:
            continue
        center = low + half
        negative, left, right = _certified(center, half, distances, exponents, start, stop)
        if negative.any():
            reach_left, reach_right = left[negative].max(), right[negative].max()
        else:
            reach_left, reach_right = left.min(), right.min()
            feasible.append((center - reach_left, center + reach_right))
        if reach_left < half:
            pending.append((low, center - reach_left, distances[left < half]))
        if reach_right < half:
            pending.append((center + reach_right, high, distances[right < half]))
    return feasible


def _certified(center, half, distances, exponents, start, stop):
    """Sign of B_m at ln b = center and how far to the left and to the right, at most `half`, it certainly stays."""
    value, slope = _value_and_slope(center, distances, exponents, start, stop)
    decay = exponents * np.exp(-exponents * (center - half))
    curvature = distances**2 * (decay @ decay) + np.minimum(distances * (decay @ exponents), exponents @ exponents / 2)
    frequencies = np.exp(-exponents * center)
    rounding = 1e-15 * (len(exponents) + distances * (frequencies @ (exponents * center)))
    margin = np.maximum(np.abs(value) - rounding, 0.0)
    outward = np.where(value < 0, -slope, slope)
    left = np.full(value.shape, half)
    right = np.full(value.shape, half)
    open_ = np.flatnonzero(margin <= (np.abs(slope) + curvature * (half / 2)) * half)
    if open_.size:
        m, o, k = margin[open_], outward[open_], curvature[open_]
        root = np.sqrt(o * o + 2 * k * m)
        # larger root t of m + o t - k t^2/2 = 0
        left[open_] = np.minimum(half, (root - o) / k)
        right[open_] = np.minimum(half, (root + o) / k)
    return value < 0, left, right


def _value_and_slope(u, distances, exponents, start, stop):
    frequencies = np.exp(-exponents * u)
    if len(distances) * 16 < stop - start:
        phase = np.outer(distances, frequencies)
        return np.cos(phase).sum(axis=1), distances * (np.sin(phase) @ (exponents * frequencies))
    coarse, fine = _phases(frequencies, start, stop)
    cos, sin = np.cos(coarse), np.sin(coarse)
    rate = exponents * frequencies
    left = np.vstack([np.hstack([cos, -sin]), np.hstack([rate * sin, rate * cos])])
    both = (left @ np.hstack([np.cos(fine), np.sin(fine)]).T).reshape(2, -1)
    index = distances.astype(np.int64) - start
    return both[0, index], distances * both[1, index]


def _phases(frequencies, start: int, stop: int):
    """Angles of the coarse and the fine part of every distance: m = start + stride * a + c."""
    stride = int(np.ceil(np.sqrt(stop - start)))
    coarse = np.arange(start, stop, stride)
    return np.outer(coarse, frequencies), np.outer(np.arange(stride), frequencies)


def _merge(pieces: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Sorted pieces, joined where they touch."""
    merged: list[tuple[float, float]] = []
    for low, high in sorted(pieces):
        if merged and low - merged[-1][1] <= 2 * RESOLUTION:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged
