"""The context extension of Llama 3.1 (Grattafiori et al. 2024, arXiv 2407.21783; the formula is that of the released code)."""

import math

import numpy as np

from model.positions.rope_scaling import Table, checked_factor, checked_length, inverse_frequencies


def llama3(
    head_dim: int,
    base: float,
    factor: float,
    original_length: int,
    *,
    low_frequency_factor: float = 1.0,
    high_frequency_factor: float = 4.0,
) -> Table:
    """w_i / s if λ_i > L0/low, w_i if λ_i < L0/high, else (1 - q_i) w_i / s + q_i w_i; λ_i = 2π/w_i [tokens], float64 [d/2].

    q_i = (L0/λ_i - low) / (high - low). It is YaRN's ramp in rotations between `low` and `high` turns, without a temperature:
    `ntk_by_parts(…, beta_fast=high, beta_slow=low, ramp="rotations")`. Llama 3.1 has s = 8 and L0 = 8192; Llama 3.2, s = 32.
    ValueError for a factor below 1, a length below 1, or a `low` that is not below `high`.
    """
    low, high = low_frequency_factor, high_frequency_factor
    if not 0 < low < high < math.inf:
        raise ValueError(f"Llama 3's low frequency factor must be positive and below the high one, got {low} and {high}")
    table = inverse_frequencies(head_dim, base)
    wavelengths = 2 * np.pi / table
    length, slow = checked_length(original_length), table / checked_factor(factor)
    share = (length / wavelengths - low) / (high - low)
    between = (1 - share) * slow + share * table
    return np.where(wavelengths > length / low, slow, np.where(wavelengths < length / high, table, between))
