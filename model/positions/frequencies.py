"""Inverse frequencies of RoPE and of its context extensions.

Tables are computed on the host in float64, in rad per token, here as in yarn.py and sections.py. d is the head dimension,
i = 0 … d/2 - 1 the pair, b the base, s the factor by which the context grows, L0 the training length in tokens.
Every function that makes a table of one coordinate returns float64 [d/2]. NoPE is
`np.zeros(d // 2)`. Functions raise ValueError for arguments out of range.

Two ways of rotating some of the pairs only have similar names. p-RoPE cuts the slow end off the spectrum of the whole head: the
pairs that stay keep their frequencies, and the lowest ones are gone. Partial rotary squeezes a whole spectrum, the lowest
frequency too, into fewer channels. With d = 8, b = 10^4 and half of the pairs, p-RoPE has the frequencies 1, 0.1, 0, 0 and
partial rotary 1, 0.01, 0, 0.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

Table = Float64[np.ndarray, " half"]


class PartialTable(NamedTuple):
    """A table of the whole head, and which of its pairs are rotated.

    Published code multiplies cos and sin by its attention factor, and leaves channels that it does not rotate alone: so there
    a factor other than 1 belongs to the rotated pairs only, and the rest of the head keeps the temperature 1.
    """

    table: Table
    rotated: Bool[np.ndarray, " half"]


def inverse_frequencies(head_dim: int, base: float) -> Table:
    """w_i = b^(-2i/d) (Su et al. 2021, arXiv:2104.09864).

    Raises:
        ValueError: for an odd head dimension, or a base that is not positive and finite.
    """
    if not 0 < base < math.inf:
        raise ValueError(f"RoPE base {base} must be positive and finite")
    return float(base) ** -exponents(head_dim)


def exponents(head_dim: int) -> Table:
    """2i/d, the exponents of the inverse frequencies. ValueError for an odd head dimension."""
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"RoPE rotates pairs of channels: head dimension {head_dim} must be even and at least 2")
    return np.arange(0, head_dim, 2, dtype=np.float64) / head_dim


def position_interpolation(head_dim: int, base: float, factor: float) -> Table:
    """w_i / s (Chen et al. 2023, arXiv:2306.15595)."""
    return inverse_frequencies(head_dim, base) / checked_factor(factor)


def ntk_aware(head_dim: int, base: float, factor: float) -> Table:
    """w_i of the base b · s^(d/(d-2)): the lowest frequency falls by s, the highest stays (bloc97 2023)."""
    if head_dim <= 2:
        raise ValueError(f"NTK-aware scaling divides by d - 2: head dimension {head_dim} must be at least 4")
    return inverse_frequencies(head_dim, base * checked_factor(factor) ** (head_dim / (head_dim - 2)))


def dynamic_ntk(head_dim: int, base: float, factor: float, original_length: int, length: int) -> Table:
    """`ntk_aware` by f l/L0 - (f - 1), where l = max(length, L0) (emozilla 2023, as in the published code).

    `length` is that of the whole text in tokens, f the `factor`. f = 1 extends by l/L0. A larger f extends by more than the
    text needs, f = 2 by 3 where l = 2 L0. All positions of a text share one table. If `length` is the length read so far, the
    rotation of every earlier token changes with it, and keys that were cached rotated no longer fit.
    """
    grown = max(checked_length(length), checked_length(original_length)) / original_length
    return ntk_aware(head_dim, base, checked_factor(factor) * grown - (factor - 1))


def llama3(
    head_dim: int,
    base: float,
    factor: float,
    original_length: int,
    *,
    low_frequency_factor: float = 1.0,
    high_frequency_factor: float = 4.0,
) -> Table:
    """The context extension of Llama 3.1 (Grattafiori et al. 2024, arXiv:2407.21783; the formula of the released code).

    w_i / s if λ_i > L0/low, w_i if λ_i < L0/high, else (1 - q_i) w_i / s + q_i w_i; λ_i = 2π/w_i [tokens], float64 [d/2].

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


def longrope(head_dim: int, base: float, factors: Sequence[float]) -> Table:
    """w_i = 1 / (e_i b^(2i/d)) with one searched factor e_i > 0 a pair (Ding et al. 2024, arXiv:2402.13753; Phi-3's code).

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
    """sqrt(1 + ln s / ln L0) for a factor s >= 1: the final multiplier of cos and of sin, for short texts as for long ones."""
    if checked_length(original_length) < 2:
        raise ValueError(f"LongRoPE divides by ln L0: a training length of {original_length} must be at least 2")
    return math.sqrt(1 + math.log(checked_factor(factor)) / math.log(original_length))


def p_rope(table: Table, p: float) -> Table:
    """The table with the lowest frequencies set to zero, so that a share p of its pairs is left; 0 < p <= 1.

    Barbero et al. 2024 (arXiv:2410.06205); "proportional" in transformers, used by Gemma's layers of full attention. The
    lowest are taken to be the last. ValueError for a share that is not a whole number of pairs.
    """
    return np.where(np.arange(len(table)) < _rotated_pairs(len(table), p), table, 0.0)


def partial(head_dim: int, share: float, table_of: Callable[[int], Table]) -> PartialTable:
    """The table of the rotary dimension share · d in the first pairs, zeros in the others; 0 < share <= 1.

    `table_of` maps a rotary dimension to its table: `lambda size: inverse_frequencies(size, base)`, or any extension of it, so
    that the ramps of YaRN see the rotary dimension too. As in GPT-J (Wang and Komatsuzaki 2021) and GPT-NeoX (Black et al.
    2022, arXiv:2204.06745). The rotated pairs are the first ones, hence in the half-split layout the channels i and i + d/2
    for i < share · d/2; GPT-NeoX pairs i with i + share · d/2, a fixed permutation of the channels. ValueError for an odd head
    dimension, a share that is not a whole number of pairs, or a table of another size.
    """
    pairs = _rotated_pairs(len(exponents(head_dim)), share)
    squeezed = table_of(2 * pairs)
    if len(squeezed) != pairs:
        raise ValueError(f"a rotary dimension of {2 * pairs} has {pairs} pairs: its table has {len(squeezed)}")
    table = np.zeros(head_dim // 2)
    table[:pairs] = squeezed
    return PartialTable(table, np.arange(head_dim // 2) < pairs)


def _rotated_pairs(pairs: int, share: float) -> int:
    """share · pairs, a whole number from 1 on."""
    if not 0 < share <= 1:
        raise ValueError(f"the rotated share of the pairs must be above 0 and at most 1, not {share}")
    rotated = round(share * pairs)
    if rotated < 1 or abs(share * pairs - rotated) > 1e-6:
        below = int(share * pairs)
        valid = " or ".join(f"{n / pairs:.6g}" for n in (below, below + 1) if n)
        raise ValueError(f"a share {share} of {pairs} pairs is no whole number of them: the nearest is {valid}")
    return rotated


def checked_factor(factor: float) -> float:
    """The factor by which a context grows. ValueError below 1, or if it is not finite."""
    if not 1 <= factor < math.inf:
        raise ValueError(f"a context extension by the factor {factor} is none: the factor must be at least 1, and finite")
    return factor


def checked_length(length: int) -> int:
    """A number of tokens. ValueError below 1."""
    if length < 1:
        raise ValueError(f"a text of {length} tokens has no positions: a length must be at least 1")
    return length
