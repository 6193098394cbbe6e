"""LongRoPE: one searched factor a pair (Ding et al. 2024, arXiv 2402.13753; the formula is that of Phi-3's code)."""

import math
from collections.abc import Sequence

import numpy as np

from model.positions.rope_scaling import Table, checked_length, inverse_frequencies


def longrope(head_dim: int, base: float, factors: Sequence[float]) -> Table:
    """w_i = 1 / (e_i b^(2i/d)), float64 [d/2], with one factor e_i > 0 a pair.

    Published models carry two lists, for texts of at most L0 tokens and for longer ones. Which of them holds is chosen once a
    text, by its whole length: keys cached under one list do not fit queries rotated by the other. ValueError for a list
    that is not d/2 long or a factor that is not positive.
    """
    table = inverse_frequencies(head_dim, base)
    if len(factors) != len(table):
        raise ValueError(
            f"LongRoPE needs one factor a pair: {len(factors)} factors for {len(table)} pairs of {head_dim} channels"
        )
    for i, factor in enumerate(factors):
        if not 0 < factor < math.inf:
            raise ValueError(f"LongRoPE divides by its factors: factor {i} must be positive and finite, not {factor}")
    return table / np.asarray(factors, np.float64)


def longrope_attention_factor(factor: float, original_length: int) -> float:
    """sqrt(1 + ln s / ln L0), and 1 for s <= 1: the final multiplier of cos and of sin, for short texts as for long ones."""
    if not 0 < factor < math.inf:
        raise ValueError(f"a context cannot grow by the factor {factor}: it must be positive and finite")
    if checked_length(original_length) < 2:
        raise ValueError(f"LongRoPE divides by ln L0: a training length of {original_length} must be at least 2")
    return math.sqrt(1 + math.log(factor) / math.log(original_length)) if factor > 1 else 1.0
