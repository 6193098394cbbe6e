"""The margins of a claim: by how much each seed supports it."""

from collections.abc import Sequence

import numpy as np

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.records.decisions import ROUNDING
from leadline.experiments.records.estimates import Values


def scaled(claim: Claim, values: Values) -> np.ndarray:
    """The values as a claim compares them: logarithms with `log`, nan where there is none."""
    numbers = np.asarray(values, np.float64)
    return np.log(numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0) if claim.log else numbers


def margins_of(claim: Claim, values: Sequence[Values]) -> np.ndarray:
    """Left above or below factor · right, positive where it supports the claim; of an equivalence the differences.

    Args:
        claim: without bounds.
        values: of each term that is compared, a number or a row a seed, or a case.
    """
    left, right = _sides(claim, values)
    return left - right if claim.relation == "above" else right - left


def rounding_of(claim: Claim, values: Sequence[Values]) -> float:
    """The difference between margins, or between values that are compared with bounds, that rounding of the values explains.

    Args:
        claim: with bounds or without.
        values: as for `margins_of`.
    """
    sides = _sides(claim, values) if claim.bounds is None else (scaled(claim, values[0]),)
    largest = max(float(np.max(np.abs(side))) for side in sides)
    return ROUNDING * (largest + claim.log)  # a logarithm differs by as much as its number does relative to itself


def _sides(claim: Claim, values: Sequence[Values]) -> tuple[np.ndarray, np.ndarray]:
    right = values[1] if isinstance(claim.right, Term) else [claim.right or 0.0]
    return scaled(claim, values[0]), scaled(claim, claim.factor * np.asarray(right))
