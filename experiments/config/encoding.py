"""What every position encoding shares.

A class says what a model takes of its encoding: rows of its tables, weights that add to the scores, or neither. What is
compiled in besides (model.block.BlockConfig) is in config/to_model.py.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.scaling import TablePer, TextLengths

if TYPE_CHECKING:
    from leadline.model.positions.relative import PositionBias


class Heads(NamedTuple):
    """Number N and size H of the heads of a layer."""

    number: int
    size: int


class RotationLayout(NamedTuple):
    """What is compiled in where positions rotate pairs of channels; all else of them is in rows of the tables."""

    coordinates: int = 1  # of a position
    interleaved: bool = False  # pairs are neighbouring channels
    grid: tuple[int, ...] = ()  # sizes of all axes but the first


class Encoding(Frozen):
    """A position encoding; this one is none."""

    @property
    def table_per(self) -> TablePer:
        """What the rows of a model's tables depend on."""
        return "sequence"

    @property
    def rotation_layout(self) -> RotationLayout | None:
        """How positions rotate pairs of channels; None where they rotate none."""
        return None

    def rows(self, heads: Heads, lengths: TextLengths) -> dict[str, Any]:  # noqa: ARG002
        """Arguments of `model.positions.tables.position_tables`, which has a default for each, for a text of that length."""
        return {}

    def bias(self) -> "PositionBias | None":
        """What is added to the scores. The classes import it here, since it needs JAX and reading a configuration does not."""
        return None

    def longest(self, heads: Heads, trained: int) -> tuple[float, str]:  # noqa: ARG002
        """The most tokens of a text, and what ends there."""
        return math.inf, ""

    def misfits(self, heads: Heads) -> Iterator[str]:  # noqa: ARG002
        """Why heads of this size cannot have the encoding; the nearest that they can have is named."""
        yield from ()
