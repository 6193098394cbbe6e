"""How far back a model finds a thing: accuracy by distance, and where it ends."""

import numpy as np
from jaxtyping import Float, Int

# What a model gets right above chance has to exceed this somewhere before a reach can be read off it.
LEARNED = 0.1


def edges(length: int) -> list[int]:
    """Upper edges of the bins of distance, half an octave each: 2, 4, 5, 8, 11, 16, 22, …, the first at or above `length`
    last. Bin D holds the distances above the edge before it, up to D; each holds an odd one.
    """
    found = [2]
    while found[-1] < length:
        found.append(int(2 ** (len(found) / 2 + 1.5)))
    return found


def binned(counts: Int[np.ndarray, " T"] | Float[np.ndarray, " T"]) -> Float[np.ndarray, " bins"]:
    """Sums over the bins of `edges(T)`; entry d counts what is at distance d, so entry 0 is in no bin."""
    upper = edges(len(counts))
    bins = zip([0, *upper[:-1]], upper, strict=True)
    return np.array([counts[low + 1 : high + 1].sum() for low, high in bins], np.float64)


def accuracy(recalled: Float[np.ndarray, " bins"], answers: Float[np.ndarray, " bins"]) -> Float[np.ndarray, " bins"]:
    """The share that is right; NaN where nothing was asked."""
    return np.divide(recalled, answers, out=np.full(len(answers), np.nan), where=answers > 0)


def measured_reach(shares: Float[np.ndarray, " bins"], chance: float, length: int) -> int:
    """The upper edge of the last bin before the first one, behind the best, whose accuracy above chance is below half of
    that of the best; `length` where there is none, 0 where no bin is LEARNED above chance. NaN bins are passed over.
    """
    above = shares - chance
    if not np.any(above > LEARNED):
        return 0
    best = int(np.nanargmax(above))
    lost = np.flatnonzero(above[best:] < above[best] / 2)
    if not len(lost):
        return length
    return min(edges(length)[best + int(lost[0]) - 1], length)
