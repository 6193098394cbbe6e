"""Attention with linear biases: one slope a head."""

import numpy as np
from numpy.typing import NDArray


def alibi_slopes(heads: int, exponent: float = 8.0) -> NDArray[np.float64]:
    """m_n = 2^(-e n / N), n = 1 … N, for N a power of two (Press et al. 2022, arXiv:2108.12409); scores get -m_n (i - j).

    Otherwise the slopes of the largest power of two below N, then every second slope of twice that power, as its authors do.

    Args:
        heads: N.
        exponent: e, 8 in the paper.

    Returns:
        float64 [N].

    Raises:
        ValueError: for no heads.
    """
    if heads < 1:
        raise ValueError(f"ALiBi needs at least one head, got {heads}")
    power = 2 ** (heads.bit_length() - 1)
    slopes = 2.0 ** (-exponent * np.arange(1, power + 1) / power)
    between = 2.0 ** (-exponent * np.arange(1, 2 * power, 2) / (2 * power))
    return np.concatenate([slopes, between])[:heads]
