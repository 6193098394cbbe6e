"""What a measurement of trained models takes and gives.

A kind of data says what a point of the curves is (`Curve`); a table of [measure] says what is measured at the end (`Final`).
`leadline.experiments.measure.kinds.registry` lists both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import Measure
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Evaluation, Statistics, evaluate, in_full_batches
from leadline.experiments.measure.kinds.plugin import plugged_statistics
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.ensemble import in_rounds
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.embedding import token_losses
from leadline.model.positions.tables import PositionTables

Job = Callable[[Decoder, Any, Any], Any]
OfTarget = Callable[[Float[Array, "B T V"], Int[Array, "B T"]], Any]


@dataclass(frozen=True)
class Models:
    """Trained models of one structure and what they were trained on.

    Attributes:
        arms: one a model; the same arm occurs once for each seed.
        params: the weights, in the same order.
        source: of their data; that of any arm, where they differ only in what a sequence of a task begins with.
        model: the structure that they share.
        programs: names of the programs compiled so far; a measurement appends its own.
    """

    arms: Sequence[Arm]
    params: Sequence[Decoder]
    source: Any
    model: DecoderConfig
    programs: list[str]

    @property
    def measure(self) -> Measure:
        """Of any of the arms: they agree in all that is compiled in."""
        return self.arms[0].measure

    def tables(self, length: int | None = None) -> list[PositionTables]:
        """The position tables of each model as it was trained, for texts of this length; absent: the training length."""
        return [tables(arm.model, arm.original_length, length or arm.data.length) for arm in self.arms]

    def run(self, name: str, job: Job, inputs: Sequence[Any], shared: Any, *rows: int) -> list[Any]:
        """`job(params, input, shared)` of every model in one compiled program, results on the host.

        Args:
            name: of the program.
            job: a pure function.
            inputs: one a model; or several, those of a model one after the other.
            shared: what is equal for all.
            *rows: the sizes of batches in `shared`, which devices may divide among themselves.
        """
        several = len(inputs) // len(self.params)
        jobs = [(self.params[number // several], values) for number, values in enumerate(inputs)]
        return in_rounds(name, job, jobs, shared, self.programs, *rows, self.model.block.width)

    def evaluated(
        self, name: str, batches: Int[np.ndarray, "C B T_and_1"], of_target: OfTarget = token_losses, length: int | None = None
    ) -> list[Any]:
        """`of_target` of every target [C · B, T] of each model, its loss [nats] where it is not given, by one program."""

        def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> Any:
            return evaluate(params, row, batches, self.model, of_target=of_target)[0]

        return self.run(name, job, self.tables(length), batches, batches.shape[1])

    def window_losses(self, name: str, windows: Int[np.ndarray, "W T_and_1"]) -> list[Float[np.ndarray, "W T"]]:
        """The loss [nats] of every target, of each model, every window by itself."""
        return [losses[: len(windows)] for losses in self.evaluated(name, in_full_batches(windows))]


class Curve(ABC):
    """A point of the curves of one kind of data, and the numbers that a record ends with."""

    @abstractmethod
    def batches(self, source: Any, arm: Arm) -> Any:
        """The held-out arrays [C, B, …] that a point is measured on, the same for every seed."""

    @abstractmethod
    def tokens(self, batches: Any) -> Int[Array | np.ndarray, "C B T_and_1"]:
        """Of these the ids of whole sequences of the training length."""

    @abstractmethod
    def evaluated(self, source: Any, arm: Arm) -> Point:
        """How much they are: `windows`, and of text `documents`."""

    @abstractmethod
    def statistics(self, evaluate: Evaluation, batches: Any, shared: Any, measure: Measure) -> Statistics:
        """A point without what is plugged in, inside a compiled program.

        Args:
            evaluate: `leadline.experiments.measure.evaluate.evaluate` of the model, from batches on.
            batches: the held-out arrays.
            shared: the arrays of the task.
            measure: what is measured.
        """

    def losses(self, losses: Float[Array, "W T"], tokens: Int[Array, "W T_and_1"], shared: Any) -> Statistics:  # noqa: ARG002
        """The mean losses that this kind of data tells apart, from the loss [nats] of every target."""
        return {reading("loss"): mean_loss(losses)}

    def domains(self, source: Any, arm: Arm) -> dict[str, Int[np.ndarray, "C B S_and_1"]]:  # noqa: ARG002
        """Windows of measure.sink.length of each domain of the held-out text, in batches; none for a task."""
        return {}

    def point(
        self, params: Decoder, tables: PositionTables, batches: Any, shared: Any, model: DecoderConfig, measure: Measure
    ) -> Statistics:
        """A point, inside a compiled program."""
        statistics = self.statistics(partial(evaluate, params, tables, cfg=model), batches, shared, measure)
        return statistics | plugged_statistics(measure.functions, params, tables, jnp.asarray(self.tokens(batches)), model)


def nothing_to_check(source: Any, arm: Arm, settings: Any) -> None:
    """For a measurement that needs no more data than the curves."""


@dataclass(frozen=True)
class Final:
    """What a table of [measure] adds to the last point of every model.

    Attributes:
        points: measures the models as the table says.
        check: raises UserError, before anything is trained, where the held-out data do not suffice for the table.
    """

    points: Callable[[Models, Any], list[Point]]
    check: Callable[[Any, Arm, Any], None] = nothing_to_check
