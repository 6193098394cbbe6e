"""The power law y = factor * x^exponent that fits best on two logarithmic axes, and how far its exponent is known."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


class PowerLaw(NamedTuple):
    """`error` is the exponent's standard error, `interval` its 95 % t-interval with two degrees of freedom fewer than
    points: both speak of the scatter about the line, not of chance."""

    factor: float
    exponent: float
    error: float
    interval: tuple[float, float]


def fitted(points: Mapping[int, float]) -> PowerLaw:
    """Least squares of ln y on ln x, given y by x. ValueError for fewer than three points, about which there is no scatter."""
    if len(points) < 3:
        raise ValueError(f"{len(points)} points: a power law with an error needs three or more")
    line: Any = stats.linregress(  # a named tuple whose names scipy does not declare
        np.log(list(points)), np.log(list(points.values()))
    )
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2)) * float(line.stderr)
    exponent = float(line.slope)
    return PowerLaw(float(np.exp(line.intercept)), exponent, float(line.stderr), (exponent - half, exponent + half))
