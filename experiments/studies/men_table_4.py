"""Men et al. 2024 (arXiv:2405.14591), Table 4: how many B_m two sets of frequencies of head dim 128 leave negative.

One is that of base 5e6. The other has the base at which the 44 pairs that turn fast join, in one geometric sequence, the
20 that turn slowly and are those of base 1e4 slowed down by 8: 1e4 * 8^(128/88). The counts are printed under the heading
"B_m >= 0"; they are those of B_m < 0, at distances up to and including 15 * 1024 and 30 * 1024.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from model.positions.base_bound import geometric_frequencies, violations

HEAD_DIM = 128
SOURCE = "Men et al. 2024, arXiv:2405.14591, Table 4"
_FAST = 44


class Row(NamedTuple):
    """What is printed: of which frequencies, up to which distance, and how many are negative."""

    frequencies: str
    distance: int
    printed: int

    @property
    def measurement(self) -> str:
        return f"negative.{self.frequencies}.{self.distance}"


ROWS = (
    Row("base_5e6", 15 * 1024, 0),
    Row("base_5e6", 30 * 1024, 0),
    Row("slowed_by_8", 15 * 1024, 97),
    Row("slowed_by_8", 30 * 1024, 2554),
)


def frequencies(name: str) -> Float64[np.ndarray, " pairs"]:
    """The frequencies of a row, [radians per token]."""
    if name == "base_5e6":
        return geometric_frequencies(5e6, HEAD_DIM)
    fast = geometric_frequencies(1e4 * 8 ** (HEAD_DIM / (2 * _FAST)), HEAD_DIM)
    slow = geometric_frequencies(1e4, HEAD_DIM) / 8
    return np.concatenate([fast[:_FAST], slow[_FAST:]])


def counts() -> dict[str, tuple[int, int | None]]:
    """Measurement name -> how many B_m are negative, and the first such distance."""
    found = {}
    for row in ROWS:
        negative = violations(frequencies(row.frequencies), row.distance + 1)
        found[row.measurement] = (negative.number, negative.first) if negative else (0, None)
    return found
