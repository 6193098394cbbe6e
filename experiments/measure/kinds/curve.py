"""What a point of the curves is, whatever the data."""

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import Measure
from leadline.experiments.config.measured import Measured
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import Evaluation, Statistics, TablesByLength, as_rows, evaluation
from leadline.experiments.measure.kinds.plugin import plugged_statistics
from leadline.experiments.measure.kinds.retrieval import hits
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.records.measurement import Point, reading
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.embedding import token_losses


class Curve(ABC):
    """A point of the curves of one kind of data, and the numbers that a record ends with."""

    @abstractmethod
    def batches(self, source: Any, arm: Measured) -> Any:
        """The held-out arrays [C, B, …] that a point is measured on, the same for every seed.

        Their `tokens` are the ids [C, B, T + 1] of whole sequences of the training length.
        """

    def lengths(self, arm: Measured) -> frozenset[int]:
        """The tokens of their texts, among them the training length."""
        return frozenset({arm.data.length})

    def evaluated(self, source: Any, arm: Measured) -> Point:  # noqa: ARG002
        """How much they are: `windows`, and of text `documents`."""
        return {reading("windows", length=arm.data.length): np.asarray(float(arm.measure.windows))}

    @abstractmethod
    def statistics(self, evaluate: Evaluation, batches: Any, shared: Any, measure: Measure) -> Statistics:
        """A point without what is plugged in, inside a compiled program.

        Args:
            evaluate: `leadline.experiments.measure.evaluate.evaluation` of the model.
            batches: the held-out arrays.
            shared: the arrays of the task.
            measure: what is measured.
        """

    def losses(self, losses: Float[Array, "W T"], tokens: Int[Array, "W T_and_1"], shared: Any) -> Statistics:  # noqa: ARG002
        """The mean losses that this kind of data tells apart, from the loss [nats] of every target."""
        return {reading("loss"): mean_loss(losses)}

    def groups(self, source: Any, arm: Measured) -> Int[np.ndarray, " W"] | None:  # noqa: ARG002
        """The group of held-out documents of each window of `batches`; None for a task, or where documents are too few."""
        return None

    def domains(self, source: Any, arm: Measured) -> dict[str, Int[np.ndarray, "C B S_and_1"]]:  # noqa: ARG002
        """Windows of measure.sink.length of each domain of the held-out text, in batches; none for a task."""
        return {}

    def point(
        self, params: Decoder, tables: TablesByLength, batches: Any, shared: Any, model: DecoderConfig, measure: Measure
    ) -> Statistics:
        """A point, inside a compiled program; `tables` are those of all `lengths`."""
        statistics = self.statistics(evaluation(params, tables, model), batches, shared, measure)
        tokens = jnp.asarray(batches.tokens)
        return statistics | plugged_statistics(measure.functions, params, tables[tokens.shape[-1] - 1], tokens, model)


def answers(evaluate: Evaluation, batches: Sample) -> tuple[Array, Float[Array, "W T"], Float[Array, "W T"]]:
    """Returns three arrays: whether each target is hit, its loss [nats], and its weight."""
    (hit, losses), _ = evaluate(
        batches.tokens, of_target=lambda scores, targets: (hits(scores, targets), token_losses(scores, targets))
    )
    return hit, losses, as_rows(jnp.asarray(batches.weights))
