"""Lower bound of the RoPE base: which bases keep B_m non-negative at every distance of a context.

    B_m(b) = sum_{i=0}^{d/2-1} cos(m b^(-2i/d))

is, up to a factor, by how much more a query attends to a similar key than to a random one m tokens away (Men et al.
2024, "Base of RoPE Bounds Context Length", arXiv:2405.14591, equations 10 and 11; Su, kexue.fm/archives/10122). A
base b is feasible for N tokens if B_m(b) >= 0 for every integer 0 <= m < N. The feasible bases are a few islands and
then a ray, so a grid or a bisection finds whatever its spacing lets it find. Here every interval of bases is decided
by a Taylor bound instead.

Let u = ln b, c_i = 2i/d, w_i = exp(-c_i u). Then

    B_m'  = sum_i c_i m w_i sin(m w_i)
    B_m'' = -sum_i c_i^2 (m w_i sin(m w_i) + (m w_i)^2 cos(m w_i)),
    |B_m''| <= K_m = sum_i c_i^2 ((m w_i)^2 + min(m w_i, 1/2))

(the last since |x sin x + x^2 cos x| <= x sqrt(1 + x^2)), and K_m only falls as u grows. So value and slope in the
middle of an interval, with K_m at its low end, certify a neighbourhood of the middle: infeasible if one m stays
negative in it, feasible if all stay positive. What is left on either side is bisected again with the distances that
are still open. At the edge of an island the reach of the certificates grows as fast as the interval shrinks, so that
convergence is quadratic. Float64 on the host.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64

RESOLUTION = 1e-9  # in ln b: islands and gaps narrower than this are not resolved
# Distances are taken in blocks that double from the first to the last of these sizes. Small distances rule out most
# bases at little cost, and a block of 16384 keeps its temporaries in the second-level cache.
FIRST_BLOCK, LAST_BLOCK = 64, 16384
DIRECT_SHARE = 64  # fewer than one in so many of a block: cosines one by one are cheaper than the block's product

# Shares of the pairs that are given up, most first, where B_m is large enough to do without them: see _lowered_ray.
SPARED = (3 / 8, 5 / 16, 1 / 4, 3 / 16, 1 / 8, 1 / 16)

Interval = tuple[float, float]
Complex = npt.NDArray[np.complex128]


class BaseBound(NamedTuple):
    """The feasible bases: the bounded islands (low, high) in rising order, then every base above
    `largest_infeasible`."""

    infimum: float
    largest_infeasible: float
    islands: list[Interval]


class Violations(NamedTuple):
    """Distances m with B_m < 0: the first, how many, and the smallest B_m."""

    first: int
    number: int
    minimum: float


def geometric_frequencies(base: float, head_dim: int) -> Float64[np.ndarray, " pairs"]:
    """w_i = base^(-2i/d) for i = 0 ... d/2-1 [radians per token]. ValueError for an odd head dim or a base that is
    not positive."""
    if not base > 0:
        raise ValueError(f"the RoPE base must be positive, not {base}")
    return float(base) ** -_exponents(head_dim)


def similarity_sums(frequencies: Float64[np.ndarray, " pairs"], length: int) -> Float64[np.ndarray, " length"]:
    """B_m = sum_i cos(m w_i) for all 0 <= m < length; of any frequencies, so of scaled ones as well.

    One real matrix product of 4 * length * pairs operations: cos((a + c) w) = cos(aw) cos(cw) - sin(aw) sin(cw).
    ValueError if length < 1.
    """
    coarse, fine = _turns(frequencies, 0, _checked(length))
    sums = np.hstack([coarse.real, -coarse.imag]) @ np.hstack([fine.real, fine.imag]).T
    return sums.reshape(-1)[:length]


def violations(frequencies: Float64[np.ndarray, " pairs"], length: int) -> Violations | None:
    """The distances 0 <= m < length with B_m < 0, or None if there is none."""
    sums = similarity_sums(frequencies, length)
    negative = np.flatnonzero(sums < 0)
    if negative.size == 0:
        return None
    return Violations(first=int(negative[0]), number=int(negative.size), minimum=float(sums.min()))


def first_violation(base: float, head_dim: int, length: int) -> Violations | None:
    """`violations` of the unscaled RoPE frequencies of one base; None says that the base is feasible."""
    return violations(geometric_frequencies(base, head_dim), length)


def base_bound(head_dim: int, length: int) -> BaseBound:
    """The feasible bases b >= 1 for a context of `length` tokens; see `base_bounds`."""
    return base_bounds(head_dim, [length])[0]


def base_bounds(head_dim: int, lengths: Sequence[int]) -> list[BaseBound]:
    """The feasible bases b >= 1 for each length, d = head_dim; the lengths share the work, which is that of the
    longest.

    What is reported as feasible is so but for gaps below RESOLUTION, which are not seen, and its edges lie within a
    few RESOLUTION (relative) of the true ones. If every b >= 1 is feasible (length <= 2) both bounds are 1. With d = 2,
    B_m = cos m whatever the base: from length 3 on no base is feasible and both bounds are infinite. Time grows about
    as length^1.5; d = 128 and 32768 tokens take seconds.
    ValueError for a head dim that is odd or not positive, or a length < 1.
    """
    exponents = _exponents(head_dim)
    bounds: dict[int, BaseBound] = {}
    feasible = [(0.0, np.inf)]
    done = 1  # B_0 = d/2 needs no check
    for length in sorted(_checked(length) for length in lengths):
        for start, stop in _blocks(done, length):
            feasible = _restricted(feasible, exponents, start, stop)
        done = max(done, length)
        edges = [(float(np.exp(low)), float(np.exp(high))) for low, high in feasible] or [(np.inf, np.inf)]
        bounds[length] = BaseBound(infimum=edges[0][0], largest_infeasible=edges[-1][0], islands=edges[:-1])
    return [bounds[length] for length in lengths]


def _exponents(head_dim: int) -> Float64[np.ndarray, " pairs"]:
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be even and positive, not {head_dim}")
    return np.arange(0, head_dim, 2) / head_dim


def _checked(length: int) -> int:
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    return length


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(max(2 * start, FIRST_BLOCK), start + LAST_BLOCK, end)
        yield start, stop
        start = stop


def _restricted(feasible: list[Interval], exponents: np.ndarray, start: int, stop: int) -> list[Interval]:
    """The parts of the intervals of ln b in which B_m >= 0 for every start <= m < stop as well."""
    ray = _certified_ray(exponents, start, stop)
    if np.isinf(ray):
        return []
    ray = _lowered_ray(ray, feasible[-1][0], exponents, start, stop)
    pieces = [(max(low, ray), high) for low, high in feasible if high > ray]
    for low, high in feasible:
        if low < ray:
            pieces += _sweep(low, min(high, ray), exponents, start, stop)
    return _merged(pieces)


def _certified_ray(exponents: np.ndarray, start: int, stop: int) -> float:
    """A ln b above which B_m > 0 for every start <= m < stop; infinite if there is none, which is the case for head
    dim 2 only.

    Pair 0 turns by one radian a token at every base, so its smallest cosine is known. Any other pair contributes at
    least cos(N w_i) if N w_i <= pi and -1 if not. That rises with b: here, and only here, bisection finds the right
    thing.
    """
    worst = np.cos(np.arange(start, stop)).min()

    def margin(u: float) -> float:
        return worst + np.cos(np.minimum(stop * np.exp(-exponents[1:] * u), np.pi)).sum()

    if worst + len(exponents) - 1 <= 0:
        return np.inf
    low, high = 0.0, 1.0
    while margin(high) <= 0:
        low, high = high, 2 * high
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if margin(middle) > 0 else (middle, high)
    return high


def _lowered_ray(ray: float, low: float, exponents: np.ndarray, start: int, stop: int) -> float:
    """A smaller one, though not below `low`, by steps down with B_m >= -k + the sum over the pairs i >= k.

    Far up B_m is large but its fast pairs bend so much that certified steps are short. Without them steps are long, and
    the value can spare them: the further up, the more of them.
    """
    distances = np.arange(start, stop, dtype=np.float64)
    step = 0.1
    for k in sorted({int(share * len(exponents)) for share in SPARED} - {0}, reverse=True):
        shortest = 4 / np.sqrt(_curvature(ray, distances[-1:], exponents)[0])  # what the full sum gets by itself
        step = max(step, 2 * shortest)
        while low < ray and step > shortest:
            below = max(low, ray - step)
            is_feasible, reached, _, _ = _decided_middle(below, ray, distances, exponents[k:], start, stop, spared=k)
            whole = is_feasible and reached == (below, ray)
            ray, step = (below, 1.5 * step) if whole else (ray, step / 2)
    return ray


def _sweep(low: float, high: float, exponents: np.ndarray, start: int, stop: int) -> list[Interval]:
    """The parts of [low, high] in ln b where B_m >= 0 for every start <= m < stop; unordered, some of them adjacent."""
    feasible = []
    pending = [(low, high, np.arange(start, stop, dtype=np.float64))]
    while pending:
        low, high, distances = pending.pop()
        if distances.size == 0:
            feasible.append((low, high))
        elif high - low >= RESOLUTION:
            is_feasible, middle, open_left, open_right = _decided_middle(low, high, distances, exponents, start, stop)
            if is_feasible:
                feasible.append(middle)
            if low < middle[0]:
                pending.append((low, middle[0], distances[open_left]))
            if middle[1] < high:
                pending.append((middle[1], high, distances[open_right]))
    return [(low, high) for low, high in feasible if low < high]


def _decided_middle(
    low: float,
    high: float,
    distances: np.ndarray,
    exponents: np.ndarray,
    start: int,
    stop: int,
    *,
    spared: int = 0,
) -> tuple[bool, Interval, np.ndarray, np.ndarray]:
    """Is the middle of [low, high] feasible; how far around it that is certain; and for which of `distances` (as
    indices) it is not certain that they stay positive down to low, and up to high. `spared` is taken off B_m."""
    half = (high - low) / 2
    center = low + half
    value, slope = _value_and_slope(center, distances, exponents, start, stop)
    value -= spared
    margin = np.abs(value) - _rounding(center, distances, exponents)
    curvature = _curvature(low, distances, exponents)
    negative = value < 0
    certain = margin > (np.abs(slope) + curvature * (half / 2)) * half
    if (certain & negative).any():
        return False, (low, high), np.arange(0), np.arange(0)
    rest = np.flatnonzero(~certain)
    if rest.size == 0:
        return True, (low, high), rest, rest
    margin, curvature, negative = np.maximum(margin[rest], 0.0), curvature[rest], negative[rest]
    growth = np.where(negative, -slope[rest], slope[rest])  # of |B_m| with u
    feasible = not negative.any()
    deciding = np.full(rest.size, True) if feasible else negative
    furthest = np.min if feasible else np.max
    to_left = furthest(_reach(margin[deciding], -growth[deciding], curvature[deciding]))
    to_right = furthest(_reach(margin[deciding], growth[deciding], curvature[deciding]))
    middle = (low if to_left >= half else center - to_left, high if to_right >= half else center + to_right)
    open_left = rest[negative | (margin <= (curvature * (half / 2) + growth) * half)]
    open_right = rest[negative | (margin <= (curvature * (half / 2) - growth) * half)]
    return feasible, middle, open_left, open_right


def _reach(margin: np.ndarray, growth: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """The t up to which margin + growth t - curvature t^2 / 2 >= 0."""
    return (growth + np.sqrt(growth * growth + 2 * curvature * margin)) / curvature


def _rounding(u: float, distances: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """More than the rounding error of B_m: some units in the last place of every cosine, and those of c_i u in its
    phase."""
    return 4e-15 * (len(exponents) + distances * (np.exp(-exponents * u) @ exponents * u))


def _curvature(u: float, distances: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """K_m, with the minimum in it taken once for all distances and pairs: valid, if a little larger."""
    decay = exponents * np.exp(-exponents * u)
    quadratic, linear, constant = decay @ decay, decay @ exponents, exponents @ exponents / 2
    if distances[0] * linear > constant:
        return quadratic * distances * distances + constant
    return distances * (quadratic * distances + linear)


def _value_and_slope(
    u: float, distances: np.ndarray, exponents: np.ndarray, start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """B_m and dB_m/du for `distances`, a subset of start ... stop - 1."""
    frequencies = np.exp(-exponents * u)
    rates = exponents * frequencies
    if len(distances) * DIRECT_SHARE < stop - start:
        phases = np.outer(distances, frequencies)
        return np.cos(phases).sum(axis=1), distances * (np.sin(phases) @ rates)
    coarse, fine = _turns(frequencies, start, stop)
    cos, sin = coarse.real, coarse.imag
    left = np.vstack([np.hstack([cos, -sin]), np.hstack([rates * sin, rates * cos])])
    cosines, sines = (left @ np.hstack([fine.real, fine.imag]).T).reshape(2, -1)
    index = slice(stop - start) if len(distances) == stop - start else distances.astype(np.int64) - start
    return cosines[index], distances * sines[index]


def _turns(frequencies: np.ndarray, start: int, stop: int) -> tuple[Complex, Complex]:
    """exp(i m w), [distances, pairs], of start, start + stride, ... and of 0 ... stride - 1; stride^2 >= stop - start.

    Row a + c of their products, in this order, belongs to the distance start + stride a + c; the last few are beyond
    stop.
    """
    stride = int(np.ceil(np.sqrt(stop - start)))
    coarse = _powers(stride * frequencies, -(-(stop - start) // stride)) * np.exp(1j * start * frequencies)
    return coarse, _powers(frequencies, stride)


def _powers(angles: np.ndarray, count: int) -> Complex:
    """exp(i k angle) for 0 <= k < count, [count, pairs]. The rows are doubled by one product each time, which is
    cheaper than as many cosines; each factor comes from its own angle, so that errors add up over log2(count)
    products only."""
    powers = np.ones((1, len(angles)), dtype=np.complex128)
    while len(powers) < count:
        powers = np.concatenate([powers, powers * np.exp(1j * len(powers) * angles)])
    return powers[:count]


def _merged(pieces: list[Interval]) -> list[Interval]:
    """Sorted, and joined where the gap is below the resolution."""
    merged: list[Interval] = []
    for low, high in sorted(pieces):
        if merged and low - merged[-1][1] <= 2 * RESOLUTION:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged
