"""Perplexity and sinks of text by evaluation length and context extension."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import PerplexityMeasure
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.scaling import Extension
from leadline.experiments.config.to_model import decoder_config, extended
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Models, Statistics, evaluate, in_batches
from leadline.experiments.measure.layers import sink_statistics
from leadline.experiments.measure.perplexity import evaluated, loss_by_position, perplexities, position_edges
from leadline.experiments.records.measurement import Dim, Point, reading
from leadline.experiments.runtime.ensemble import in_rounds
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.positions.tables import PositionTables

# The index of a model, how its context is extended (None: as it was trained), and the extended model.
Job = tuple[int, Extension | None, ModelConfig]


def perplexity(models: Models, settings: PerplexityMeasure) -> list[Point]:
    """`perplexity_at` every length of the settings, each model as trained and with the extensions of its own settings."""
    points: list[Point] = [{} for _ in models.arms]
    measures = [arm.measure.perplexity or settings for arm in models.arms]
    extensions: list[tuple[Extension | None, ...]] = [(None, *measure.extensions) for measure in measures]
    for length in settings.lengths:
        measured = perplexity_at(models, settings, length, extensions)
        points = [point | more for point, more in zip(points, measured, strict=True)]
    return points


def perplexity_at(
    models: Models, settings: PerplexityMeasure, length: int, extensions: Sequence[Sequence[Extension | None]]
) -> list[Point]:
    """At one length: perplexity of each model with each of its `extensions`; None is as trained, and gives the sinks too.

    Windows of all lengths of the settings end at the same targets: a longer one has the text of a shorter one, and more before
    it. A model that cannot be extended to this length has nothing of an extension.

    One program serves all models, seeds and tables of one structure.
    """
    points: list[Point] = [{} for _ in models.arms]
    text = models.source.text.held_out(max(settings.lengths), settings.windows, settings.stride).ending(length)
    edges = position_edges(length)
    for structure, jobs in by_structure(models, length, extensions).items():
        for (i, extension, _), (losses, sinks) in zip(jobs, _measured(models, text.windows, structure, jobs), strict=True):
            dims: dict[str, Dim] = {"length": length}
            if extension is not None:
                dims["extension"] = extension
            points[i] |= perplexities(losses, text, settings.last, **dims)
            points[i] |= {reading("loss_by_position", **dims): loss_by_position(losses, edges)}
            points[i] |= {reading("position_edges", length=length): edges} | evaluated(text, length=length, of="perplexity")
            if extension is None:
                points[i] |= sinks
    return points


def by_structure(
    models: Models, length: int, extensions: Sequence[Sequence[Extension | None]]
) -> dict[DecoderConfig, list[Job]]:
    """Jobs by what is compiled in: besides the model, whether its table changes within a text.

    At the training length there is nothing to extend, and some models have no such extension.
    """
    by_structure: dict[DecoderConfig, list[Job]] = {}
    for i, (arm, of_arm) in enumerate(zip(models.arms, extensions, strict=True)):
        for extension in of_arm:
            # A factor is relative to the length that the first weights were trained at.
            factor = length / arm.original_length if length > arm.data.length else 1.0
            model = arm.model if extension is None else extended(arm.model, extension, factor)
            if model is not None:
                structure = decoder_config(model, models.model.vocabulary, arm.data.length, models.model.document_end)
                by_structure.setdefault(structure, []).append((i, extension, model))
    return by_structure


def _measured(
    models: Models, windows: Int[np.ndarray, "W T_and_1"], structure: DecoderConfig, jobs: Sequence[Job]
) -> list[tuple[Float[np.ndarray, "W T"], Point]]:
    """The loss [nats] of every target, and the sinks, of each job; no sinks where no job is as trained."""
    length, sink, batches = windows.shape[1] - 1, models.arms[0].measure.sink, in_batches(windows)
    as_trained = any(extension is None for _, extension, _ in jobs)

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return sink_statistics(trace, sink, length=length) if as_trained else {}

    def job(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> tuple[Array, Statistics]:
        return evaluate(params, row, batches, structure, of_layer=of_layer)

    inputs = [(models.params[i], tables(model, models.arms[i].original_length, length)) for i, _, model in jobs]
    divided = batches.shape[1], structure.block.width
    return in_rounds(f"perplexity at {length}", job, inputs, batches, models.programs, *divided, text=length, tell=models.tell)
