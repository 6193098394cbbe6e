"""What is measured of a model of Bigram-Backcopy."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.anatomy import anatomy, changes, maps, taken_apart
from experiments.config.measure import SinksMeasure
from experiments.config.study import Arm
from experiments.data.backcopy import Backcopy, bigram_queries, oracle_loss, trigger_queries
from experiments.data.source import BackcopySource
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate, in_batches
from experiments.group import Point
from experiments.measure.layers import layer_statistics
from experiments.measure.perplexity import mean_loss
from experiments.measure.sinks import first_norm_ratio, mean_mass
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

# Queries before this one see too few keys to show where a head likes to rest.
FIRST_QUERY = 8


def of_losses(losses: Float[Array, "B T"], tokens: Int[Array, "B T+1"], task: Backcopy) -> Statistics:
    """The loss [nats] on all targets, on copies, and on what is drawn from the bigram; that less what it is at least."""
    copied, drawn = trigger_queries(tokens[:, :-1], task), bigram_queries(tokens[:, :-1], task)
    least = jnp.where(drawn, oracle_loss(tokens, task), 0)
    bigram = mean_loss(losses, drawn)
    return {
        "loss": mean_loss(losses),
        "backcopy_loss": mean_loss(losses, copied),
        "bigram_loss": bigram,
        "bigram_excess": bigram - mean_loss(least, drawn),
    }


class SinksMeasurer:
    """Attention to BOS where nothing is to be copied, the norm of its value, and the loss on either kind of token."""

    def batches(self, source: BackcopySource, measure: SinksMeasure) -> Int[np.ndarray, "C B T"]:
        return in_batches(np.asarray(source.held_out(measure.sequences)), TOKENS_AT_ONCE)

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Int[Array, "C B T"],
        shared: Backcopy,
        model: DecoderConfig,
        measure: SinksMeasure,
    ) -> Statistics:
        def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
            resting = bigram_queries(tokens, shared) & (jnp.arange(tokens.shape[1]) >= FIRST_QUERY)[None]
            return layer_statistics(trace, token=measure.sink.token, epsilon=measure.sink.epsilon) | {
                "bos_mass": mean_mass(trace.attention.first, resting),
                "bos_value_ratio": first_norm_ratio(trace.value_norm, start=FIRST_QUERY),
            }

        return evaluate(params, tables, batches, model, of_layer=of_layer, of_losses=partial(of_losses, task=shared))

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],  # noqa: ARG002
        source: Any,  # noqa: ARG002
        model: DecoderConfig,  # noqa: ARG002
        programs: list[str],  # noqa: ARG002
    ) -> list[Point]:
        """Nothing beyond the last point."""
        return [{} for _ in arms]


class BackcopyMeasurer(SinksMeasurer):
    """The same, and at the end the anatomy of every model."""

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: BackcopySource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """`source` is that of one of the arms, which have the same task, with BOS or without."""
        measure: Any = arms[0].measure
        texts = [self.batches(replace(source, data=arm.data), measure) for arm in arms]  # pyright: ignore[reportArgumentType]

        def job(params: Decoder, own: tuple[Array, PositionTables], shared: tuple[Any, Backcopy]) -> Statistics:
            (arm, row), (texts, task) = own, shared
            batches = texts[arm]
            losses = partial(of_losses, task=task)
            sink = {"token": measure.sink.token, "epsilon": measure.sink.epsilon, "start": FIRST_QUERY}
            text = batches[0, :, : source.data.length]
            return (
                anatomy(params, row, batches, model, losses, **sink)
                | changes(params, row, batches, model, losses, hidden=(1,))
                | maps(params, row, text, model)
            )

        inputs = np.stack(texts), source.task
        return taken_apart(arms, params, job, inputs, model, programs, rows=texts[0].shape[1])
