"""What the layers and heads of trained models do on held-out text, and what becomes of the loss without them."""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import AblationMeasure, SinkRate
from leadline.experiments.measure.evaluate import Statistics, evaluate
from leadline.experiments.measure.interventions import loss_changes
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.kinds.kind import Models
from leadline.experiments.measure.layers import attention_statistics, sink_statistics
from leadline.experiments.measure.sinks import active_dormant_share, dormant_share, mean_mass
from leadline.experiments.measure.trained import attention_maps, early_divergence, loss_gradient_norms
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.positions.tables import PositionTables


def ablation(models: Models, settings: AblationMeasure) -> list[Point]:
    """Layer statistics, interventions and the attention map, on the whole windows of the curves.

    One program serves all models. The dormancy of heads is that on windows of measure.sink.length of each domain.
    """
    measure, curve, data = models.measure, curve_of(models.arms[0].data), [arm.data for arm in models.arms]
    distinct = list(dict.fromkeys(data))  # arms of a task may differ in what a sequence begins with
    texts = [curve.tokens(curve.batches(models.source, models.arms[data.index(entry)])) for entry in distinct]
    domains = curve.domains(models.source, models.arms[0])

    def job(params: Decoder, inputs: tuple[Array, PositionTables], shared: tuple[Any, dict[str, Any], Any]) -> Statistics:
        (text, row), (texts, domains, task) = inputs, shared
        batches = texts[text]
        losses = partial(curve.losses, shared=task)
        return (
            trained_statistics(params, row, batches, models.model, measure.sink)
            | loss_changes(params, row, batches, models.model, losses, settings.hidden)
            | attention_maps(params, row, batches[0, :, : settings.map], models.model)
            | _dormancy(params, row, domains, models.model, measure.sink.epsilon)
        )

    inputs = [(np.int32(distinct.index(entry)), row) for entry, row in zip(data, models.tables(), strict=True)]
    shared = np.stack(texts), domains, models.source.shared
    return models.run("ablation", job, inputs, shared, *(text.shape[1] for text in (texts[0], *domains.values())))


def trained_statistics(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T_and_1"], cfg: DecoderConfig, sink: SinkRate
) -> Statistics:
    """Of every layer: sinks at this length, what explains them, early decoding, and the gradient on the first batch."""

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
        return sink_statistics(trace, sink, length=tokens.shape[1]) | attention_statistics(trace)

    return evaluate(params, tables, batches, cfg, of_layer=of_layer)[1] | {
        reading("early_divergence"): early_divergence(params, tables, batches, cfg),
        reading("gradient_norm"): loss_gradient_norms(params, tables, batches[0], cfg),
    }


def _dormancy(
    params: Decoder, tables: PositionTables, domains: dict[str, Int[Array, "C B S_and_1"]], cfg: DecoderConfig, threshold: float
) -> Statistics:
    """First-token mass [L, N] and share of dormant heads of each domain; of two domains the heads dormant in one only."""

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B S"]) -> Statistics:  # noqa: ARG001
        return {reading("first_token_mass"): mean_mass(trace.attention.first)}

    masses: dict[str, Float[Array, "L N"]] = {}
    statistics: Statistics = {}
    for domain, batches in domains.items():
        masses[domain] = evaluate(params, tables, batches, cfg, of_layer=of_layer)[1][reading("first_token_mass")]
        statistics[reading("first_token_mass", domain=domain)] = masses[domain]
        statistics[reading("dormant_share", domain=domain)] = dormant_share(masses[domain], threshold=threshold)
    if len(masses) == 2:
        statistics[reading("active_dormant_share")] = active_dormant_share(*masses.values(), threshold=threshold)
    return statistics
