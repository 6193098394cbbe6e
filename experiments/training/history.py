"""What the members of a group have behind them, and its form in a checkpoint."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline.experiments.records.curve import NO_CURVE, curve_of, extended, rows_of
from leadline.experiments.records.measurement import Point, measurements_of, reading
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.records.record import Curve

TRAIN_LOSS = reading("train_loss")


@dataclass
class History:
    """Curves, divergences and time so far.

    Attributes:
        curves: of each member.
        diverged: of each member the step at which it diverged and what is said of it, or None.
        seconds: that the group has trained for.
    """

    curves: list[Curve]
    diverged: list[tuple[int, str] | None]
    seconds: float = 0.0

    def add(self, step: int, points: Sequence[Point], losses: np.ndarray | None, quantities: Mapping[str, Quantity]) -> None:
        """Appends a point to each curve: one number a quantity, and the loss of the batch if there was one."""
        for i, point in enumerate(points):
            numbers = [entry for entry in measurements_of(point, quantities) if "layer" not in entry.dims]
            values = {entry.reading: math.nan if entry.value is None else entry.value for entry in numbers}
            values[TRAIN_LOSS] = math.nan if losses is None else float(losses[i])
            self.curves[i] = extended(self.curves[i], step, values)

    def note_divergence(self, step: int, losses: np.ndarray, limit: float) -> None:
        """Marks the members whose loss is above the limit [nats] or not a number for the first time."""
        for i, loss in enumerate(losses):
            if self.diverged[i] is None and not loss <= limit:
                self.diverged[i] = step, f"the loss was {loss:g} at step {step}; it counts as diverged above {limit:.2f} nats"

    def as_json(self) -> dict[str, Any]:
        return {"curves": [rows_of(curve) for curve in self.curves], "diverged": self.diverged, "seconds": self.seconds}

    def of(self, members: Sequence[int]) -> "History":
        """That of some of the members, in this order."""
        return History([self.curves[i] for i in members], [self.diverged[i] for i in members], self.seconds)


def no_history(members: int) -> History:
    return History([NO_CURVE] * members, [None] * members)


def history_of(content: Mapping[str, Any]) -> History:
    """The history of its JSON."""
    diverged = [None if entry is None else (int(entry[0]), str(entry[1])) for entry in content["diverged"]]
    return History([curve_of(rows) for rows in content["curves"]], diverged, content["seconds"])
