"""Least-squares power laws."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


class PowerLaw(NamedTuple):
    """y = factor · x^exponent.

    Attributes:
        factor: of the law.
        exponent: of the law.
        interval: 95 % t-interval of the exponent, with two degrees of freedom fewer than points. It describes the scatter of
            the points about the line; nothing here is random.
    """

    factor: float
    exponent: float
    interval: tuple[float, float]


def fitted(points: Mapping[int, float]) -> PowerLaw:
    """Least squares of ln y on ln x.

    Args:
        points: y by x.

    Raises:
        ValueError: for fewer than three points, which leave no scatter to estimate an error from.
    """
    if len(points) < 3:
        raise ValueError(f"{len(points)} points: a power law with an error needs three or more")
    line: Any = stats.linregress(  # a named tuple whose names scipy does not declare
        np.log(list(points)), np.log(list(points.values()))
    )
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2)) * float(line.stderr)
    exponent = float(line.slope)
    return PowerLaw(float(np.exp(line.intercept)), exponent, (exponent - half, exponent + half))
