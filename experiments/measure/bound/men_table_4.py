"""Men et al. 2024 (arXiv:2405.14591), Table 4: at how many distances two sets of frequencies of head dim 128 have B_m < 0.

The first set is that of base 5e6. The second slows the 20 slow pairs of base 1e4 down by 8 and replaces the 44 fast ones by a
geometric sequence that meets them: its base is 1e4 · 8^(128/88). The table prints its counts under the heading "B_m >= 0", but
they are the numbers of distances with B_m < 0, among the distances up to and including 15 · 1024 and 30 · 1024.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from leadline.model.positions.frequencies import inverse_frequencies

Frequencies = Literal["base_5e6", "slowed_by_8"]
HEAD_DIM = 128
FAST_PAIRS = 44


class Row(NamedTuple):
    """A printed count: of which frequencies, and up to which distance."""

    frequencies: Frequencies
    distance: int
    printed: int


ROWS = (
    Row("base_5e6", 15 * 1024, 0),
    Row("base_5e6", 30 * 1024, 0),
    Row("slowed_by_8", 15 * 1024, 97),
    Row("slowed_by_8", 30 * 1024, 2554),
)


def frequencies(name: Frequencies) -> Float64[np.ndarray, " pairs"]:
    """ω of one set of frequencies [pairs], radians per token."""
    if name == "base_5e6":
        return inverse_frequencies(HEAD_DIM, 5e6)
    fast = inverse_frequencies(HEAD_DIM, 1e4 * 8 ** (HEAD_DIM / (2 * FAST_PAIRS)))
    slow = inverse_frequencies(HEAD_DIM, 1e4) / 8
    return np.concatenate([fast[:FAST_PAIRS], slow[FAST_PAIRS:]])
