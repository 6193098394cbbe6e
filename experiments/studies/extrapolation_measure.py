"""Perplexity and sinks of a language model by evaluation length and context extension."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.build import extended
from experiments.config import Arm, ExtrapolationMeasure
from experiments.config_position import Extension
from experiments.data.source import TextSource
from experiments.evaluate import Statistics, evaluate, in_batches
from experiments.loop import Point
from experiments.measure.layers import layer_statistics, sink_statistics
from experiments.measure.perplexity import last_loss, mean_loss
from experiments.population import compiled, over_arms, population_mesh, share, stack, unstack
from experiments.position_tables import tables
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

# Tokens of one forward pass: enough to fill a core, few enough that a block of scores stays small.
TOKENS_AT_ONCE = 5000
# Over the last positions of a window; short windows, which the curves are measured on, have no others.
LAST = "last_loss"


class ExtrapolationMeasurer:
    """Sinks on short windows along the way; at the end perplexity at every length, as trained and with every extension."""

    def batches(self, source: TextSource, measure: ExtrapolationMeasure) -> Int[np.ndarray, "C B T"]:
        for longest in measure.lengths:
            source.held_out(longest, measure.tokens)  # what is too short for the end is said at the beginning
        length = measure.sink.length
        return in_batches(source.held_out(length, measure.sequences * length), TOKENS_AT_ONCE)

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Int[Array, "C B T"],
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: ExtrapolationMeasure,
    ) -> Statistics:
        return _statistics(params, tables, batches, model, measure, layer_statistics, last=None)

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: TextSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """One program a length serves all models, seeds and frequency tables; a job is a model with one table."""
        found: list[Point] = [{} for _ in arms]
        for length in arms[0].measure.lengths:  # pyright: ignore[reportAttributeAccessIssue]
            jobs = _jobs(arms, length)
            results = _measured(arms, params, source, model, length, jobs, programs)
            for (i, extension), result in zip(jobs, results, strict=True):
                found[i] |= _named(result, extension, length, arms[i].measure.last)  # pyright: ignore[reportAttributeAccessIssue]
        return found


def _jobs(arms: Sequence[Arm], length: int) -> list[tuple[int, Extension]]:
    """(index of the model, extension) for each that there is; at the training length there is nothing to extend."""
    return [
        (i, extension)
        for i, arm in enumerate(arms)
        for extension in arm.measure.extensions  # pyright: ignore[reportAttributeAccessIssue]
        if extended(arm.model, extension, length / arm.data.length) is not None
    ]


def _measured(
    arms: Sequence[Arm],
    params: Sequence[Decoder],
    source: TextSource,
    model: DecoderConfig,
    length: int,
    jobs: Sequence[tuple[int, Extension]],
    programs: list[str],
) -> list[Point]:
    measure: Any = arms[0].measure
    windows = in_batches(source.held_out(length, measure.tokens), TOKENS_AT_ONCE)
    mesh = population_mesh(len(jobs), windows.shape[1], model.block.width)
    with jax.set_mesh(mesh):
        batches = share(windows, mesh)
        models = stack([params[i] for i, _ in jobs], mesh)
        rows = stack([_tables(arms[i], extension, length) for i, extension in jobs], mesh)

        def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T"]) -> Statistics:
            return _statistics(params, row, batches, model, measure, sink_statistics, last=measure.last)

        program = compiled(f"measure at {length}", over_arms(job), programs, models, rows, batches)
        return unstack(program(models, rows, batches), len(jobs))


def _tables(arm: Arm, extension: Extension, length: int) -> PositionTables:
    longer = extended(arm.model, extension, length / arm.data.length)
    if longer is None:
        raise ValueError(f"arm {arm.name} has no extension {extension!r} to {length} tokens")
    return tables(longer, arm.data.length, length)


def _statistics(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    model: DecoderConfig,
    measure: ExtrapolationMeasure,
    of_trace: Callable[..., Statistics],
    last: int | None,
) -> Statistics:
    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return of_trace(trace, token=measure.sink.token, epsilon=measure.sink.epsilon)

    def of_losses(losses: Float[Array, "B T"], tokens: Int[Array, "B T+1"]) -> Statistics:  # noqa: ARG001
        return {"loss": mean_loss(losses)} | ({} if last is None else {LAST: last_loss(losses, last)})

    return evaluate(params, tables, batches, model, of_layer=of_layer, of_losses=of_losses)


def _named(result: Point, extension: str, length: int, last: int) -> Point:
    """A result under the names of the record; the sinks only of the model as it was trained."""
    named = {
        f"perplexity.{extension}.{length}": np.asarray(np.exp(result["loss"])),
        f"perplexity_last{last}.{extension}.{length}": np.asarray(np.exp(result[LAST])),
    }
    if extension == "none":
        named |= {f"{name}.{length}": result[name] for name in ("sink_rate", "first_token_mass", "logit_mass")}
    return named
