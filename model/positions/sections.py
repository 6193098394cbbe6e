"""RoPE of several coordinates: tables [coordinates, d/2] in float64, [rad per unit of a coordinate].

The angle of pair i is the sum over the coordinates c of position_c · table[c, i]. Here every pair has one coordinate. Where all
coordinates of a token are equal, as in the text of Qwen-VL, `sectioned` and `interleaved_sections` are the RoPE of one.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from leadline.model.positions.frequencies import Table, inverse_frequencies

Tables = Float64[np.ndarray, "coordinates half"]


def axial(head_dim: int, base: float, coordinates: int) -> Tables:
    """The channels divided among the coordinates C, each with its own whole spectrum b^(-2jC/d), j = 0 … d/(2C) - 1.

    Heo et al. 2024 (arXiv:2403.13298), who have C = 2 and b = 100. The first coordinate has the first d/(2C) pairs; theirs is
    x, the last of `model.context.grid_positions`. ValueError for a head dimension that is not a multiple of 2 C.
    """
    if coordinates < 1:
        raise ValueError(f"positions have at least one coordinate, not {coordinates}")
    if head_dim < 1 or head_dim % (2 * coordinates):
        lower = head_dim // (2 * coordinates) * 2 * coordinates
        nearest = " or ".join(str(size) for size in (lower, lower + 2 * coordinates) if size > 0)
        raise ValueError(f"{coordinates} coordinates share a head's pairs: head dimension {head_dim} must be {nearest}")
    return np.kron(np.eye(coordinates), inverse_frequencies(head_dim // coordinates, base))


def sectioned(table: Table, sections: Sequence[int]) -> Tables:
    """One coordinate a section of consecutive pairs; every pair keeps its frequency.

    M-RoPE of Qwen2-VL (Wang et al. 2024, arXiv:2409.12191): time, height and width with the sections 16, 24, 24 of 64 pairs.
    So time has the fast pairs and width the slow ones.

    Raises:
        ValueError: for sections that do not add up to the pairs.
    """
    sizes = _checked(table, sections)
    return _of_one_coordinate_a_pair(table, np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def interleaved_sections(table: Table, sections: Sequence[int]) -> Tables:
    """Coordinates that alternate from pair to pair, THWTHW…, until each has its section; the rest is the first one's.

    Interleaved M-RoPE of Qwen3-VL (Bai et al. 2025, arXiv:2511.21631): sections 24, 20, 20 of 64 pairs, the last four of which
    are T's.

    Raises:
        ValueError: for sections that do not add up to the pairs, or that of a later coordinate c which is larger than the
            number of the pairs c, c + C, c + 2C, … of C coordinates. The published code silently takes fewer pairs.
    """
    _checked(table, sections)
    owners = np.zeros(len(table), np.int64)
    for c, section in enumerate(sections[1:], start=1):
        every = np.arange(c, len(table), len(sections))
        if section > len(every):
            raise ValueError(
                f"interleaved section {c} of {section} pairs is too large: one in {len(sections)} of {len(table)} pairs"
                f" makes {len(every)}; give the rest to the first coordinate"
            )
        owners[every[:section]] = c
    return _of_one_coordinate_a_pair(table, owners, len(sections))


def _checked(table: Table, sections: Sequence[int]) -> list[int]:
    if not sections or any(section < 0 for section in sections):
        raise ValueError(f"sections are numbers of pairs, one a coordinate and none negative, not {list(sections)}")
    if sum(sections) != len(table):
        raise ValueError(f"the sections {list(sections)} add up to {sum(sections)} pairs, the table has {len(table)}")
    return list(sections)


def _of_one_coordinate_a_pair(table: Table, owners: np.ndarray, coordinates: int) -> Tables:
    return np.where(np.arange(coordinates)[:, None] == owners, table, 0.0)
