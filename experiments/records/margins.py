"""The margins of a claim: by how much each seed supports it."""

from collections.abc import Sequence

import numpy as np

from leadline.experiments.config.claim import Claim, Term
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
    right = values[1] if isinstance(claim.right, Term) else [claim.right or 0.0]
    margins = scaled(claim, claim.factor * np.asarray(right)) - scaled(claim, values[0])
    return -margins if claim.relation == "above" else margins
