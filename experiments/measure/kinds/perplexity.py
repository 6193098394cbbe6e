"""Perplexity and sinks of text by evaluation length and context extension."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import PerplexityMeasure
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.scaling import Extension
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import decoder_config, extended
from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Statistics, evaluate, in_batches
from leadline.experiments.measure.kinds.kind import Models
from leadline.experiments.measure.layers import sink_statistics
from leadline.experiments.measure.perplexity import evaluated, loss_by_position, perplexities, position_edges
from leadline.experiments.records.measurement import Dim, Point, reading
from leadline.experiments.runtime.ensemble import in_rounds
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.positions.tables import PositionTables

Job = tuple[int, Extension | None]  # the index of a model, and how its context is extended: None as it was trained


def perplexity(models: Models, settings: PerplexityMeasure) -> list[Point]:
    """At every length: perplexity as trained and with each extension, and the sinks as trained.

    Windows of all lengths end at the same targets: a longer one has the text of a shorter one, and more before it.

    One program a length serves all models, seeds and tables of one structure.
    """
    points: list[Point] = [{} for _ in models.arms]
    longest = models.source.held_out(max(settings.lengths), settings.windows, settings.stride)
    for length in settings.lengths:
        text = longest.ending(length)
        edges = position_edges(length)
        for structure, jobs in by_structure(models, length, settings.extensions).items():
            for (i, extension), (sinks, losses) in zip(jobs, _measured(models, text.windows, structure, jobs), strict=True):
                dims: dict[str, Dim] = {"length": length}
                if extension is not None:
                    dims["extension"] = extension
                points[i] |= perplexities(losses, text, settings.last, **dims)
                points[i] |= {reading("loss_by_position", **dims): loss_by_position(losses, edges)}
                if extension is None:
                    points[i] |= sinks | evaluated(text, length=length, of="perplexity")
                    points[i] |= {reading("position_edges", length=length): edges}
    return points


def check_perplexity(source: TextSource, arm: Arm, settings: PerplexityMeasure) -> None:  # noqa: ARG001
    """UserError where no window of the largest length fits into the held-out text."""
    source.held_out(max(settings.lengths), 1, settings.stride)


def by_structure(models: Models, length: int, extensions: Sequence[Extension]) -> dict[DecoderConfig, list[Job]]:
    """Jobs by what is compiled in: besides the model, whether its table changes within a text.

    At the training length there is nothing to extend, and some models have no such extension.
    """
    by_structure: dict[DecoderConfig, list[Job]] = {}
    for i, arm in enumerate(models.arms):
        for extension in (None, *(extensions if length > arm.data.length else ())):
            model = _model(arm, extension, length)
            if model is not None:
                structure = decoder_config(model, models.model.vocabulary, arm.data.length)
                by_structure.setdefault(structure, []).append((i, extension))
    return by_structure


def _model(arm: Arm, extension: Extension | None, length: int) -> ModelConfig | None:
    """The model at that length; a factor is relative to the length that its first weights were trained at."""
    return arm.model if extension is None else extended(arm.model, extension, length / arm.original_length)


def tables_at(arm: Arm, extension: Extension | None, length: int) -> PositionTables:
    model = _model(arm, extension, length)
    if model is None:
        raise ValueError(f"arm {arm.name} has no extension {extension!r} to {length} tokens")
    return tables(model, arm.original_length, length)


def _measured(
    models: Models, windows: Int[np.ndarray, "W T_and_1"], structure: DecoderConfig, jobs: Sequence[Job]
) -> list[tuple[Point, Float[np.ndarray, "W T"]]]:
    """Sinks, and the loss [nats] of every target, of each job."""
    length, sink, batches = windows.shape[1] - 1, models.measure.sink, in_batches(windows)

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return sink_statistics(trace, sink, length=length)

    def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> tuple[Statistics, Array]:
        losses, sinks = evaluate(params, row, batches, structure, of_layer=of_layer)
        return sinks, losses

    inputs = [(models.params[i], tables_at(models.arms[i], extension, length)) for i, extension in jobs]
    rows = batches.shape[1], structure.block.width
    return in_rounds(f"perplexity at {length}", job, inputs, batches, models.programs, *rows, text=length)
