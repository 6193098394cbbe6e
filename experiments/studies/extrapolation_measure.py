"""Perplexity and sinks of a language model by evaluation length and context extension."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from experiments.build import decoder_config, extended
from experiments.config.measure import ExtrapolationMeasure
from experiments.config.model import ModelConfig
from experiments.config.scaling import Extension
from experiments.config.study import Arm
from experiments.data.held_out import HeldOut
from experiments.data.source import TextSource
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate_tokens, in_batches, text_point
from experiments.group import Point
from experiments.measure.layers import sink_statistics
from experiments.measure.perplexity import loss_by_position, perplexities, position_edges
from experiments.population import in_rounds
from experiments.position_tables import tables
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

Job = tuple[int, Extension]  # the index of a model, and how its context is extended


class ExtrapolationMeasurer:
    """Sinks on short windows along the way; at the end perplexity at every length, as trained and with every extension."""

    def batches(self, source: TextSource, measure: ExtrapolationMeasure) -> Int[np.ndarray, "C B T"]:
        for longest in measure.lengths:
            source.scored(longest, measure.tokens, measure.stride)  # what is too short for the end is said at the beginning
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
        return text_point(params, tables, batches, model, measure.sink)

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: TextSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """One program a length serves all models, seeds and tables of one structure; a job is a model with one table."""
        found: list[Point] = [{} for _ in arms]
        measure: Any = arms[0].measure
        for length in measure.lengths:
            text = source.scored(length, measure.tokens, measure.stride)
            for structure, jobs in _by_structure(arms, _jobs(arms, length), model.vocabulary, length).items():
                results = _measured(arms, params, text, structure, length, jobs, programs)
                for (i, extension), (statistics, losses) in zip(jobs, results, strict=True):
                    found[i] |= _named(losses, text, extension, length, measure.last)
                    if extension == "none":  # the sinks only of the model as it was trained
                        found[i] |= {f"{name}.{length}": value for name, value in statistics.items()}
        return found


def _jobs(arms: Sequence[Arm], length: int) -> list[Job]:
    """(index of the model, extension) for each that there is; at the training length there is nothing to extend."""
    return [
        (i, extension)
        for i, arm in enumerate(arms)
        for extension in arm.measure.extensions  # pyright: ignore[reportAttributeAccessIssue]
        if extension == "none" or (length > arm.data.length and _extended(arm, extension, length) is not None)
    ]


def _extended(arm: Arm, extension: Extension, length: int) -> ModelConfig | None:
    """The model at that length; a factor is relative to the length that its first weights were trained at."""
    return extended(arm.model, extension, length / arm.original_length)


def _model(arm: Arm, extension: Extension, length: int) -> ModelConfig:
    found = _extended(arm, extension, length)
    if found is None:
        raise ValueError(f"arm {arm.name} has no extension {extension!r} to {length} tokens")
    return found


def _by_structure(arms: Sequence[Arm], jobs: Sequence[Job], vocabulary: int, length: int) -> dict[DecoderConfig, list[Job]]:
    """Jobs by what is compiled in: besides the model, whether its table changes within a text."""
    found: dict[DecoderConfig, list[Job]] = {}
    for i, extension in jobs:
        structure = decoder_config(_model(arms[i], extension, length), vocabulary, arms[i].data.length)
        found.setdefault(structure, []).append((i, extension))
    return found


def _measured(
    arms: Sequence[Arm],
    params: Sequence[Decoder],
    text: HeldOut,
    model: DecoderConfig,
    length: int,
    jobs: Sequence[Job],
    programs: list[str],
) -> list[tuple[Point, Float[np.ndarray, "W T"]]]:
    """Sinks and token losses of each job."""
    measure: Any = arms[0].measure
    windows = in_batches(text.windows, TOKENS_AT_ONCE)

    def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T"]) -> tuple[Statistics, Float[Array, "C B T-1"]]:
        def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
            return sink_statistics(trace, token=measure.sink.token, epsilon=measure.sink.epsilon)

        return evaluate_tokens(params, row, batches, model, of_layer=of_layer)

    own = [(params[i], _tables(arms[i], extension, length)) for i, extension in jobs]
    found = in_rounds(f"measure at {length}", job, own, windows, programs, windows.shape[1], model.block.width, text=length)
    return [(statistics, losses.reshape(-1, length)) for statistics, losses in found]


def _tables(arm: Arm, extension: Extension, length: int) -> PositionTables:
    return tables(_model(arm, extension, length), arm.original_length, length)


def _named(losses: Float[np.ndarray, "W T"], text: HeldOut, extension: str, length: int, last: int) -> Point:
    """Every perplexity of one job, and its loss by position, under the names of the record."""
    way, counted = f"{extension}.{length}", text.counted
    edges = position_edges(length)
    found = {
        **perplexities(losses, counted, text.documents, last, way),
        f"loss_by_position.{way}": loss_by_position(losses, edges),
        f"position_edges.{length}": edges,
    }
    return {name: np.asarray(value) for name, value in found.items()}
