"""What one number says of B_m on a whole interval of bases: which distances stay positive, how far a sign reaches.

    B_m(u) = sum_{i=0}^{d/2-1} cos(m w_i),   w_i = e^(-c_i u),   u = ln b,   c_i = 2i/d

Two certificates hold for every base of an interval [low, high] of u with middle v.

Arcs, for many distances at once. Pair i turns by at most r_i = m (w_i(low) - w_i(v)) to either side of m w_i(v), and for
all |x| <= r <= pi/2

    cos(a + x) >= cos(r) cos(a) - sin(r),

since the difference of both sides, Re((e^(ix) - cos r) e^(ia)) + sin r, is at least sin r - |e^(ix) - cos r| >= 0. From
r = pi/2 on, this says cos >= -1. A slow pair, m w_i(low) <= pi, is smallest at low, and cos(m w_i(low)) bounds it. So
sums of cosines alone, as one matrix product, bound B_m over the interval: no slope is needed, and float32 suffices.

Taylor, for the few distances that the arcs leave open:

    B_m'  = sum_i c_i m w_i sin(m w_i)
    B_m'' = -sum_i c_i^2 (m w_i sin(m w_i) + (m w_i)^2 cos(m w_i)),
    |B_m''| <= K_m = sum_i c_i^2 ((m w_i)^2 + min(m w_i, 1/2))

(the last since |x sin x + x^2 cos x| <= x sqrt(1 + x^2)), and K_m only falls as u grows. Value and slope in the middle,
with K_m at low, certify a sign as far as it reaches, at the edge of an island as well.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float64, Int64

Float32Array = npt.NDArray[np.float32]
Phases = tuple[Float32Array, Float32Array]

FLOAT32 = 2.0**-24  # unit roundoff
# Above this many distances and this width of an interval in u, cosines of float64 phases are taken in float32, 25 times faster.
MANY, WIDE = 16, 1e-6


class Pairs(NamedTuple):
    """The pairs of RoPE: c_i, and every how many tokens a distance is tested. Distances below are counted in these
    units: j stands for m = every * j, and the frequencies are radians per unit."""

    exponents: Float64[np.ndarray, " pairs"]
    every: int

    def frequencies(self, u: float) -> Float64[np.ndarray, " pairs"]:
        return self.every * np.exp(-self.exponents * u)


class Decision(NamedTuple):
    """Is the middle of an interval feasible; in which part of the interval is that certain; and which of the distances
    (as indices) are not certain to stay positive from there down to the low end, and up to the high end."""

    feasible: bool
    certain: tuple[float, float]
    open_below: Int64[np.ndarray, " below"]
    open_above: Int64[np.ndarray, " above"]


def open_distances(low: float, high: float, start: int, stop: int, pairs: Pairs) -> Float64[np.ndarray, " open"]:
    """The distances start <= m < stop that the arcs leave open: all others have B_m > 0 on all of [low, high].

    Distances are start + stride a + c. Row a of the matrices takes the widest arcs, those of its largest distance.
    """
    fastest, middle = pairs.frequencies(low), pairs.frequencies((low + high) / 2)
    spread = (fastest - middle) * (1 + 1e-7)  # more than their rounding in float32
    spared = start * spread >= np.pi / 2
    slow = ~spared & (stop * fastest <= np.pi)
    turning = ~spared & ~slow
    stride = int(np.ceil(np.sqrt(stop - start)))
    first = np.arange(start, stop, stride, dtype=np.float64)
    last = first + (stride - 1)
    radius = np.minimum(np.outer(last, spread[turning]).astype(np.float32), np.float32(np.pi / 2))
    slow_part = np.cos(np.minimum(np.outer(last, fastest[slow]), np.pi).astype(np.float32)).sum(axis=1, dtype=np.float64)
    threshold = np.sin(radius).sum(axis=1, dtype=np.float64) - slow_part + spared.sum() + _float32_error(len(middle))
    cos_first, sin_first = _cos_sin(first, middle[turning])
    cos_stride, sin_stride = _cos_sin(np.arange(stride, dtype=np.float64), middle[turning])
    shrunk = np.cos(radius)
    sums = np.hstack([cos_first * shrunk, sin_first * -shrunk]) @ np.hstack([cos_stride, sin_stride]).T
    candidates = np.flatnonzero(sums <= threshold.astype(np.float32)[:, None]) + start
    return candidates[candidates < stop].astype(np.float64)


def decided(low: float, high: float, distances: Float64[np.ndarray, " open"], pairs: Pairs) -> Decision:
    """What value, slope and K_m of `distances`, which rise, say of the interval."""
    half = (high - low) / 2
    middle = low + half
    value, slope, error = tangent(middle, half, distances, pairs)
    margin = np.abs(value) - error
    curvature = curvature_bound(low, distances, pairs)
    negative = value < 0
    certain = margin > (np.abs(slope) + curvature * (half / 2)) * half
    if (certain & negative).any():
        return Decision(False, (low, high), np.arange(0), np.arange(0))
    rest = np.flatnonzero(~certain)
    if rest.size == 0:
        return Decision(True, (low, high), rest, rest)
    margin, curvature, negative = np.maximum(margin[rest], 0.0), curvature[rest], negative[rest]
    growth = np.where(negative, -slope[rest], slope[rest])  # of |B_m| with u
    feasible = not negative.any()
    deciding = np.full(rest.size, True) if feasible else negative
    furthest = np.min if feasible else np.max
    down = furthest(_reach(margin[deciding], -growth[deciding], curvature[deciding]))
    up = furthest(_reach(margin[deciding], growth[deciding], curvature[deciding]))
    return Decision(
        feasible,
        (low if down >= half else middle - down, high if up >= half else middle + up),
        rest[_ends_open(margin, growth, curvature, negative, half)],
        rest[_ends_open(margin, -growth, curvature, negative, half)],
    )


def tangent(
    u: float, half: float, distances: Float64[np.ndarray, " open"], pairs: Pairs
) -> tuple[Float64[np.ndarray, " open"], Float64[np.ndarray, " open"], Float64[np.ndarray, " open"]]:
    """B_m(u), its slope in u, and more than the rounding error of B_m + slope * x for all |x| <= half."""
    frequencies = pairs.frequencies(u)
    rates = pairs.exponents * frequencies
    total = distances * rates.sum()
    # Some units in the last place of every cosine, and those of c_i u in its phase.
    error = 4e-15 * (len(rates) + total * (u + half))
    if len(distances) <= MANY or half < WIDE:
        phases = np.outer(distances, frequencies)
        return np.cos(phases).sum(axis=1), distances * (np.sin(phases) @ rates), error
    cos, sin = _cos_sin(distances, frequencies)
    slope = distances * (sin @ rates.astype(np.float32))
    return cos.sum(axis=1, dtype=np.float64), slope, error + FLOAT32 * (8 * len(rates) + (len(rates) + 9) * total * half)


def curvature_bound(u: float, distances: Float64[np.ndarray, " open"], pairs: Pairs) -> Float64[np.ndarray, " open"]:
    """K_m of distances that rise, with the minimum in it taken once for all of them and all pairs: valid, if a little
    larger."""
    exponents = pairs.exponents
    rates = exponents * pairs.frequencies(u)
    quadratic, linear, constant = rates @ rates, rates @ exponents, exponents @ exponents / 2
    if distances[0] * linear > constant:
        return quadratic * distances * distances + constant
    return distances * (quadratic * distances + linear)


def _cos_sin(distances: np.ndarray, frequencies: np.ndarray) -> Phases:
    """cos(m w) and sin(m w), [distances, pairs]: the phase reduced to half a turn in float64, the rest in float32.

    Off by less than 8 units of roundoff: half a turn has four, and sine and cosine two more.
    """
    turns = np.outer(distances, frequencies / (2 * np.pi))
    turns -= np.rint(turns)
    phases = turns.astype(np.float32) * np.float32(2 * np.pi)
    return np.cos(phases), np.sin(phases)


def _float32_error(pairs: int) -> float:
    """More than the error of the sums and thresholds in `open_distances`, in whatever order their 2 * pairs terms are
    added: the terms of a pair sum to at most 1 in absolute value, and what enters them is off by less than 40 units."""
    return pairs * (2 * pairs + 40) * FLOAT32


def _reach(margin: np.ndarray, growth: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """The t up to which margin + growth t - curvature t^2 / 2 >= 0."""
    return (growth + np.sqrt(growth * growth + 2 * curvature * margin)) / curvature


def _ends_open(
    margin: np.ndarray, fall: np.ndarray, curvature: np.ndarray, negative: np.ndarray, half: float
) -> Bool[np.ndarray, " rest"]:
    """Whether a distance may be negative between the middle and the end at which |B_m| has fallen by `fall` * half."""
    return negative | (margin <= (curvature * (half / 2) + fall) * half)
