"""Single numbers as points."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leadline.experiments.records.measurement import Dim, Point, reading


def scalars(values: Mapping[str, Any], **dims: Dim) -> Point:
    """Numbers by quantity as readings at these dimensions, without those that are None."""
    return {reading(name, **dims): np.asarray(value) for name, value in values.items() if value is not None}
