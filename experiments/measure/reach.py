"""Accuracy of recall by distance, and the distance at which it ends."""

import numpy as np
from jaxtyping import Float, Int

# A reach is read off only where accuracy exceeds chance by more than this at some distance.
LEARNED = 0.1


def distance_edges(length: int) -> list[int]:
    """Upper edges of half-octave bins of distance: 2, 4, 5, 8, 11, 16, 22, … up to the first at or above `length`.

    A bin holds the distances above the edge before it, up to its own; each holds an odd distance.
    """
    edges = [2]
    while edges[-1] < length:
        edges.append(int(2 ** (len(edges) / 2 + 1.5)))
    return edges


def binned(counts: Int[np.ndarray, " T"] | Float[np.ndarray, " T"]) -> Float[np.ndarray, " bins"]:
    """Sums of counts by distance over the bins of `distance_edges(T)`. Entry d counts distance d; entry 0 is in no bin."""
    upper = distance_edges(len(counts))
    bins = zip([0, *upper[:-1]], upper, strict=True)
    return np.array([counts[low + 1 : high + 1].sum() for low, high in bins], np.float64)


def accuracy(recalled: Float[np.ndarray, " bins"], answers: Float[np.ndarray, " bins"]) -> Float[np.ndarray, " bins"]:
    """The share of answers that is right; NaN where there are none."""
    return np.divide(recalled, answers, out=np.full(len(answers), np.nan), where=answers > 0)


def measured_reach(shares: Float[np.ndarray, " bins"], chance: float, length: int) -> int:
    """The distance [tokens] up to which recall works.

    Args:
        shares: accuracy in each bin of `distance_edges(length)`; NaN bins are passed over.
        chance: accuracy of guessing.
        length: of the text.

    Returns:
        The upper edge of the last bin before accuracy above chance first falls, behind its best bin, below half of its best;
        `length` where it never does, 0 where no bin is more than LEARNED above chance.
    """
    above = shares - chance
    if not np.any(above > LEARNED):
        return 0
    best = int(np.nanargmax(above))
    lost = np.flatnonzero(above[best:] < above[best] / 2)
    if not len(lost):
        return length
    return min(distance_edges(length)[best + int(lost[0]) - 1], length)
