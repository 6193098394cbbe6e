"""Tables of inverse frequencies [rad per token] of RoPE and its context extensions, on the host in float64.

d is the head dimension, i = 0 … d/2 - 1 the pair, b the base, s the factor by which the context grows, L0 the training length.
Every function returns float64 [d/2]; NoPE is `np.zeros(d // 2)`.
"""

import math

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def inverse_frequencies(head_dim: int, base: float) -> Table:
    """w_i = b^(-2i/d) (Su et al. 2021, arXiv 2104.09864). ValueError for an odd head dimension or a base <= 0."""
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"RoPE rotates pairs of channels: head dimension {head_dim} must be even and at least 2")
    if not base > 0:
        raise ValueError(f"RoPE base {base} must be positive")
    return base ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)


def position_interpolation(head_dim: int, base: float, factor: float) -> Table:
    """w_i / s (Chen et al. 2023, arXiv 2306.15595)."""
    return inverse_frequencies(head_dim, base) / _checked(factor)


def ntk_aware(head_dim: int, base: float, factor: float) -> Table:
    """w_i of the base b · s^(d/(d-2)): the lowest frequency falls by s, the highest stays (bloc97 2023)."""
    if head_dim <= 2:
        raise ValueError(f"NTK-aware scaling divides by d - 2: head dimension {head_dim} must be at least 4")
    return inverse_frequencies(head_dim, base * _checked(factor) ** (head_dim / (head_dim - 2)))


def yarn(
    head_dim: int,
    base: float,
    factor: float,
    original_length: int,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Table:
    """w_i (1 - r_i) + w_i / s · r_i with the ramp r in the pair index (Peng et al. 2023, arXiv 2309.00071, as in its code).

    r_i = clip((i - low) / (high - low), 0, 1); low and high are the pairs that turn beta_fast and beta_slow times within L0,
    d ln(L0 / (2π beta)) / (2 ln b), rounded outwards if `truncate` and kept within [0, d - 1]. The paper's ramp is linear in
    the number of turns instead; the published models use this one. Where no pair turns between beta_slow and beta_fast
    times the ramp is a step; the published code lets it run backwards there. Multiply cos and sin by `yarn_attention_factor`.
    """
    if not beta_fast > beta_slow > 0:
        raise ValueError(f"YaRN needs beta_fast > beta_slow > 0, got {beta_fast} and {beta_slow}")
    if original_length < 1 or not base > 1:
        raise ValueError(f"YaRN needs a training length >= 1 and a base > 1, got {original_length} and {base}")
    table = inverse_frequencies(head_dim, base)
    low, high = (
        head_dim * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (beta_fast, beta_slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low = max(low, 0)
    high = max(min(high, head_dim - 1), low)
    # The published code widens an empty ramp by a thousandth of a pair.
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low or 1e-3), 0, 1)
    return table * (1 - ramp) + table / _checked(factor) * ramp


def yarn_attention_factor(factor: float) -> float:
    """0.1 ln s + 1, and 1 for s <= 1: the final multiplier of cos and of sin, so scores grow by its square."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0


def _checked(factor: float) -> float:
    if not factor >= 1:
        raise ValueError(f"a context extension by the factor {factor} is none: the factor must be at least 1")
    return factor
