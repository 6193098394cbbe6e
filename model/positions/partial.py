"""Rotating some of the pairs only. Two different encodings have similar names.

p-RoPE cuts the slow end off the spectrum of the whole head: the pairs that stay keep their frequencies, and the lowest ones are
gone. Partial rotary squeezes a whole spectrum, the lowest frequency too, into fewer channels. With d = 8, b = 10^4 and half of
the pairs, p-RoPE has the frequencies 1, 0.1, 0, 0 and partial rotary 1, 0.01, 0, 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from leadline.model.positions.frequencies import Table


class PartialTable(NamedTuple):
    """A table of the whole head, and which of its pairs are rotated.

    Published code multiplies cos and sin by its attention factor, and leaves channels that it does not rotate alone: so there
    a factor other than 1 belongs to the rotated pairs only, and the rest of the head keeps the temperature 1.
    """

    table: Table
    rotated: Bool[np.ndarray, " half"]


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
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"RoPE rotates pairs of channels: head dimension {head_dim} must be even and at least 2")
    pairs = _rotated_pairs(head_dim // 2, share)
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
