"""NTK-by-parts and YaRN: fast pairs stay, slow pairs are interpolated, a ramp between (Peng et al. 2023, arXiv:2309.00071).

The paper and the published code differ. A pair makes r_i = L0 w_i / 2π turns within the training length. The paper's ramp is
linear in r_i, the code's is linear in i, that is in ln r_i; both have the same ends but for rounding. At d = 128, b = 1e4,
L0 = 4096, s = 16 the code keeps 0.64 of the frequency of pair 30, the paper 0.30. Published models use the code's.
"""

import math
from typing import Literal

import numpy as np

from leadline.model.positions.frequencies import Table, checked_factor, checked_length, inverse_frequencies

Ramp = Literal["pairs", "rotations"]


def ntk_by_parts(
    head_dim: int,
    base: float,
    factor: float,
    original_length: int,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    ramp: Ramp = "pairs",
    truncate: bool = True,
) -> Table:
    """w_i (1 - p_i) + w_i / s · p_i, float64 [d/2]: p = 0 keeps a pair, p = 1 interpolates it.

    Pairs of more than beta_fast turns within L0 are kept, those of fewer than beta_slow interpolated. Between them p is linear
    in the number of turns (ramp "rotations", the paper's 1 - gamma(r)) or in the pair (ramp "pairs", the published code), where
    `truncate` rounds the ends of the ramp outwards to whole pairs; "rotations" has nothing to round. ValueError for a factor
    below 1, a base that is not above 1, a length below 1, or ends in the wrong order.
    """
    if not math.inf > beta_fast > beta_slow > 0:
        raise ValueError(f"YaRN needs beta_fast > beta_slow > 0, got {beta_fast} and {beta_slow}")
    if not base > 1:
        raise ValueError(f"YaRN looks for the slow pairs at the end of the table: it needs a base > 1, got {base}")
    table = inverse_frequencies(head_dim, base)
    radians = checked_length(original_length)  # that pair 0 turns in L0 tokens
    if ramp == "rotations":
        turns = radians * table / (2 * math.pi)
        share = np.clip((beta_fast - turns) / (beta_fast - beta_slow), 0, 1)
    elif ramp == "pairs":
        ends = (beta_fast, beta_slow)
        low, high = (head_dim * math.log(radians / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in ends)
        share = _pair_ramp(head_dim, low, high, truncate)
    else:
        raise ValueError(f"unknown ramp {ramp!r}: it is linear in 'pairs' or in 'rotations'")
    return table * (1 - share) + table / checked_factor(factor) * share


# YaRN is this table together with the temperature of `yarn_attention_factor`.
yarn = ntk_by_parts


def dynamic_yarn(
    head_dim: int,
    base: float,
    original_length: int,
    length: int,
    *,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    ramp: Ramp = "pairs",
    truncate: bool = True,
) -> Table:
    """YaRN by s = max(1, length / L0), `length` being that of the whole text in tokens.

    Its temperature is `yarn_attention_factor(s)`. As with `dynamic_ntk`, one table holds for all positions of a text.
    """
    factor = max(1.0, checked_length(length) / checked_length(original_length))
    return ntk_by_parts(
        head_dim, base, factor, original_length, beta_fast=beta_fast, beta_slow=beta_slow, ramp=ramp, truncate=truncate
    )


def yarn_attention_factor(factor: float, *, multiplier: float = 1.0) -> float:
    """multiplier · (0.1 ln s + 1) for a factor s >= 1: the final multiplier of cos and of sin.

    Queries and keys are both multiplied, so scores grow by its square. Two numbers go by similar names elsewhere: the final
    one, which transformers calls `attention_factor`, and a multiplier on top of 0.1 ln s + 1, which YaRN's own code and
    vLLM call `attn_factor`. Here the final one is the attention factor, and the other is the multiplier.
    """
    return multiplier * (0.1 * math.log(checked_factor(factor)) + 1.0)


def _pair_ramp(head_dim: int, low: float, high: float, truncate: bool) -> Table:
    """clip((i - low) / (high - low), 0, 1), the ends kept within [0, d - 1].

    Where the ends then lie in the wrong order, the whole ramp being outside of [0, d - 1], it is a step at `low`. The
    published code goes on with the wrong order, and the ramp runs backwards: it interpolates what it should keep.
    """
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low = max(low, 0)
    high = max(min(high, head_dim - 1), low)
    # The published code widens an empty ramp by a thousandth of a pair.
    return np.clip((np.arange(head_dim // 2) - low) / (high - low or 1e-3), 0, 1)
