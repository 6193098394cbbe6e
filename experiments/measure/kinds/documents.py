"""The last point of the curves of text again, without each group of held-out documents."""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Int

from leadline.experiments.data.text.held_out import HeldOut
from leadline.experiments.measure.evaluate import Models, Statistics, evaluate
from leadline.experiments.measure.kinds.text_curves import text_sinks
from leadline.experiments.measure.kinds.vocabulary import bits_per_byte, target_sizes
from leadline.experiments.measure.layers import layer_statistics
from leadline.experiments.measure.perplexity import mean_loss, means_without
from leadline.experiments.records.left_out import without
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables


def documents(models: Models) -> list[Point]:
    """The losses and the statistics of `TextCurve`, each without each group of held-out documents.

    Losses and layer statistics are of windows of the training length, sinks of windows of measure.sink.length. The group of a
    window is that of its first target. One program for each length serves all models.
    """
    arm, source = models.arms[0], models.source
    sink = arm.measure.sink
    texts = {length: source.text.held_out(length, arm.measure.windows) for length in (arm.data.length, sink.length)}

    def of_sinks(trace: LayerTrace, tokens: Int[Array, "1 S"]) -> Statistics:
        return text_sinks(trace, tokens, source.shared, sink)

    layers = _without(models, "documents", texts[arm.data.length], lambda trace, _: layer_statistics(trace), loss=True)
    sinks = _without(models, "sinks of documents", texts[sink.length], of_sinks)
    if arm.measure.vocabulary is None:  # it measures bits per byte of other text, also without each group
        sizes = target_sizes(source, texts[arm.data.length].windows).mean(axis=1)
        count_bytes = means_without(sizes, texts[arm.data.length].window_groups)[1:]
        for point in filter(None, layers):
            point[without(reading("bits_per_byte"))] = bits_per_byte(point[without(reading("loss"))], count_bytes)
    return [{**of_sinks, **of_layers} for of_sinks, of_layers in zip(sinks, layers, strict=True)]


def _without(
    models: Models, name: str, text: HeldOut, of_layer: Callable[[LayerTrace, Array], Statistics], *, loss: bool = False
) -> list[Point]:
    """The statistics of layers, and the loss if asked for, as means over windows, without each group; nothing if documents are
    too few."""
    if not text.enough_documents:
        return [{} for _ in models.arms]

    def job(params: Decoder, row: PositionTables, windows: Int[Array, "W T_and_1"]) -> Statistics:
        def of_window(window: Int[Array, " T_and_1"]) -> Statistics:
            losses, statistics = evaluate(params, row, window[None, None], models.model, of_layer=of_layer)
            return statistics | ({reading("loss"): mean_loss(losses)} if loss else {})

        return jax.lax.map(of_window, windows)

    groups = text.window_groups
    return [
        {without(key): means_without(np.asarray(values), groups)[1:] for key, values in statistics.items()}
        for statistics in models.run(name, job, models.tables(text.counted.shape[1]), text.windows, 1)
    ]
