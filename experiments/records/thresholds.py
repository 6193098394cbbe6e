"""The thresholds at which a verdict would turn."""

import math
from collections.abc import Sequence

import numpy as np

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.records.estimates import Values, covariances, estimate, mean_interval, whole
from leadline.experiments.records.margins import margins_of
from leadline.experiments.records.sequential import LEVEL

Range = tuple[float, float]


def threshold(claim: Claim) -> tuple[float, ...]:
    """The numbers that a statement names, with which `turning` is compared; none for a function."""
    if claim.function is not None:
        return ()
    if claim.share is not None:
        return (claim.share,)
    if claim.bounds is not None:
        return claim.bounds
    if claim.relation == "equivalent":
        return (claim.delta or 0.0,)
    return (claim.factor * (1.0 if isinstance(claim.right, Term) else claim.right or 0.0),)


def turning(claim: Claim, values: Sequence[Values], interval: Range | None, level: float = LEVEL) -> Range | None:
    """The thresholds between which a claim is undecided: on one side of them it holds, on the other it fails.

    What counts as the threshold, and the interval that takes its place:

        share               the share: that of Clopper and Pearson
        equivalent          delta: the smallest and the largest size of a difference in the interval of its mean
        right is a term     factor: that of left / right, by Fieller (1954)
        otherwise           the number, or the bounds: that of the mean of left

    With `log` the means and the ratio are geometric. Where nothing is random, the range of the cases takes the place of an
    interval.

    Args:
        claim: what is compared.
        values: of each term, a number or a row a seed (leadline.experiments.records.estimates), or a case.
        interval: of the decision; None where nothing is random.
        level: of the intervals.

    Returns:
        The lower and the upper threshold; None where no threshold decides, the right side is not positive, or a value has
        no logarithm.
    """
    left = np.asarray(values[0], np.float64)
    if claim.share is not None:
        return interval
    if claim.relation == "equivalent":
        low, high = interval or _range(margins_of(claim, values))
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    figures = left
    if isinstance(claim.right, Term):
        if interval is not None and not claim.log:
            return ratio_interval(left, values[1], level)
        if np.min(values[1]) <= 0:
            return None
        with np.errstate(invalid="ignore"):
            figures = left / np.asarray(values[1])
    if not np.isfinite(figures).all() or (claim.log and np.min(figures) <= 0):
        return None
    if interval is None:
        return _range(figures)
    if not claim.log:
        return mean_interval(figures, level)
    low, high = mean_interval(np.log(figures), level)
    return math.exp(low), math.exp(high)


def ratio_interval(left: Values, right: Values, level: float = LEVEL) -> Range | None:
    """The ratios f of two paired means for which 0 lies in the interval of the mean of left - f · right.

    Fieller, Some Problems in Interval Estimation, 1954. None where the mean of `right` is not clearly positive.
    """
    a, b = float(np.mean(whole(left))), float(np.mean(whole(right)))
    margins = np.asarray(left) - (a / b if b else 0.0) * np.asarray(right)
    spread = estimate(margins)
    squared = spread.half(level / 2) ** 2 / sum(spread.variances) if any(spread.variances) else 0.0
    seeds, documents = covariances(left, right)
    (s_aa, s_ab), (_, s_bb) = squared * (seeds + documents)
    leading, middle = float(b**2 - s_bb), float(a * b - s_ab)
    if leading <= 0 or b <= 0:
        return None
    half = math.sqrt(max(0.0, middle**2 - leading * float(a**2 - s_aa)))
    return (middle - half) / leading, (middle + half) / leading


def _range(values: Values) -> Range:
    return float(np.min(whole(values))), float(np.max(whole(values)))
