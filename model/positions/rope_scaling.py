"""Tables of inverse frequencies [rad per token] of RoPE and the context extensions that change its base or divide all of it.

On the host in float64, as are those of yarn.py, llama3.py, longrope.py, partial.py and sections.py. There as here d is the head
dimension, i = 0 … d/2 - 1 the pair, b the base, s the factor by which the context grows, L0 the training length in tokens.
Every function returns float64 [d/2]; NoPE is `np.zeros(d // 2)`. What cannot be is a ValueError that says what can.
"""

import math

import numpy as np
from jaxtyping import Float64

Table = Float64[np.ndarray, " half"]


def inverse_frequencies(head_dim: int, base: float) -> Table:
    """w_i = b^(-2i/d) (Su et al. 2021, arXiv 2104.09864). ValueError for an odd head dimension or a base <= 0."""
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"RoPE rotates pairs of channels: head dimension {head_dim} must be even and at least 2")
    if not 0 < base < math.inf:
        raise ValueError(f"RoPE base {base} must be positive and finite")
    return base ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)


def position_interpolation(head_dim: int, base: float, factor: float) -> Table:
    """w_i / s (Chen et al. 2023, arXiv 2306.15595)."""
    return inverse_frequencies(head_dim, base) / checked_factor(factor)


def ntk_aware(head_dim: int, base: float, factor: float) -> Table:
    """w_i of the base b · s^(d/(d-2)): the lowest frequency falls by s, the highest stays (bloc97 2023)."""
    if head_dim <= 2:
        raise ValueError(f"NTK-aware scaling divides by d - 2: head dimension {head_dim} must be at least 4")
    return inverse_frequencies(head_dim, base * checked_factor(factor) ** (head_dim / (head_dim - 2)))


def dynamic_ntk(head_dim: int, base: float, factor: float, original_length: int, length: int) -> Table:
    """`ntk_aware` by f l/L0 - (f - 1), where l = max(length, L0) (emozilla 2023, as in the published code).

    `length` is that of the whole text in tokens, f the `factor`. f = 1 extends by l/L0; a larger f extends by more than the
    text needs: f = 2 by 3 where l = 2 L0. The table is one for all positions of a text. A program that takes the length read
    so far changes the rotation of every earlier token as it reads, so that keys which it cached rotated no longer fit.
    """
    grown = max(checked_length(length), checked_length(original_length)) / original_length
    return ntk_aware(head_dim, base, checked_factor(factor) * grown - (factor - 1))


def checked_factor(factor: float) -> float:
    """The factor by which a context grows, if it is one; else ValueError."""
    if not 1 <= factor < math.inf:
        raise ValueError(f"a context extension by the factor {factor} is none: the factor must be at least 1, and finite")
    return factor


def checked_length(length: int) -> int:
    """A number of tokens, if it is one; else ValueError."""
    if length < 1:
        raise ValueError(f"a text of {length} tokens has no positions: a length must be at least 1")
    return length
