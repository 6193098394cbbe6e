"""B_m = sum_i cos(m w_i) of given frequencies at every distance, in float64 on the host."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64


class Violations(NamedTuple):
    """Distances m with B_m < 0: the first, how many, and the smallest B_m."""

    first: int
    number: int
    minimum: float


def similarity_sums(frequencies: Float64[np.ndarray, " pairs"], length: int) -> Float64[np.ndarray, " length"]:
    """B_m = sum_i cos(m w_i) for all 0 <= m < length; of any frequencies, so of scaled ones as well.

    One real matrix product of 4 * length * pairs operations: cos((a + c) w) = cos(aw) cos(cw) - sin(aw) sin(cw), where a
    counts in strides and c = 0 ... stride - 1.

    Raises:
        ValueError: if length < 1.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, not {length}")
    stride = int(np.ceil(np.sqrt(length)))
    coarse, fine = _powers(stride * frequencies, -(-length // stride)), _powers(frequencies, stride)
    sums = np.hstack([coarse.real, -coarse.imag]) @ np.hstack([fine.real, fine.imag]).T
    return sums.reshape(-1)[:length]


def violations(frequencies: Float64[np.ndarray, " pairs"], length: int, *, every: int = 1) -> Violations | None:
    """The distances m = 0, every, 2 every, ... below length with B_m < 0, or None if there is none."""
    sums = similarity_sums(every * frequencies, -(-length // every))
    negative = np.flatnonzero(sums < 0)
    if negative.size == 0:
        return None
    return Violations(first=every * int(negative[0]), number=int(negative.size), minimum=float(sums.min()))


def _powers(angles: np.ndarray, count: int) -> npt.NDArray[np.complex128]:
    """exp(i k angle) for 0 <= k < count, [count, pairs]. The rows are doubled by one product each time, which is
    cheaper than as many cosines; each factor comes from its own angle, so that errors add up over log2(count)
    products only."""
    powers = np.ones((1, len(angles)), dtype=np.complex128)
    while len(powers) < count:
        powers = np.concatenate([powers, powers * np.exp(1j * len(powers) * angles)])
    return powers[:count]
