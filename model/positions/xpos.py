"""xPos: RoPE whose pairs decay with distance, the fast ones sooner."""

import math
import sys

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

# Powers of two of float32's normal range, 2^-126 … 2^128, that are left to the numbers of the queries and keys themselves.
HEADROOM = 16


def xpos_decay(head_dim: int, *, gamma: float = 0.4, scale_base: float = 512.0) -> NDArray[np.float64]:
    """ln(zeta_i) / scale_base per token, zeta_i = (2i/d + gamma) / (1 + gamma), i = 0 … d/2 - 1.

    Sun et al. 2022 (arXiv:2212.10554). Pair i of a query at position t is multiplied by e^(decay_i t), that of a key at s by
    e^(-decay_i s), so that their product fades by zeta_i^((t - s) / scale_base): scores depend on t - s only. Public
    implementations count positions from the middle of the call, which keeps the numbers small but makes a cached key that was
    scaled in a shorter call wrong in a longer one. Here positions count from 0 and nothing depends on the length of the call;
    `xpos_longest` says how far that goes.

    Returns float64 [d/2], all negative. ValueError for an odd head dimension, or gamma or scale_base that is not positive.
    """
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"xPos scales pairs of channels: head dimension {head_dim} must be even and at least 2")
    if not (gamma > 0 and scale_base > 0):
        raise ValueError(f"xPos needs gamma > 0 and scale_base > 0, got {gamma} and {scale_base}")
    zeta = (np.arange(0, head_dim, 2) / head_dim + gamma) / (1 + gamma)
    return np.log(zeta) / scale_base


def xpos_longest(head_dim: int, *, gamma: float = 0.4, scale_base: float = 512.0) -> int:
    """Tokens that a text may have: `longest_with` of `xpos_decay`.

    Raises:
        ValueError: for an odd head dimension, or gamma or scale_base that is not positive.
    """
    return longest_with(xpos_decay(head_dim, gamma=gamma, scale_base=scale_base))


def longest_with(decay: Float[np.ndarray, "*shape"]) -> int:
    """Tokens that a text may have: both factors stay within float32's normal range, 2^`HEADROOM` from either end.

    Beyond it a scaled query falls to zero and a scaled key to infinity, and their product is a NaN. Without a decay there is
    no end, and the result is `sys.maxsize`.
    """
    fastest = float(np.max(np.abs(decay)))
    return math.floor((126 - HEADROOM) * math.log(2) / fastest) + 1 if fastest else sys.maxsize
