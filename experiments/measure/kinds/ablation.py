"""What the layers and heads of trained models do on held-out text, and what becomes of the loss without them."""

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import AblationMeasure
from leadline.experiments.measure.evaluate import Evaluation, Models, Statistics, TablesByLength, evaluation
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.layers import attention_statistics, sink_statistics
from leadline.experiments.measure.sinks import active_dormant_share, dormant_share, mean_mass
from leadline.experiments.measure.trained import (
    CaseLosses,
    attention_maps,
    case_losses,
    early_divergence,
    loss_cases,
    loss_gains,
    loss_gradient_norms,
)
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder


def ablation(models: Models, settings: AblationMeasure) -> list[Point]:
    """Layer statistics, interventions and the attention map, on the whole windows of the curves.

    The changes of the loss are measured without each group of held-out documents too. One program serves all models. The
    dormancy of heads is that on windows of measure.sink.length of each domain.
    """
    cfg, sink, data = models.model, models.arms[0].measure.sink, [arm.data for arm in models.arms]
    curve, source, distinct = curve_of(data[0]), models.source, list(dict.fromkeys(data))
    # Arms of a task may differ in what a sequence begins with.
    texts = [curve.batches(source, models.arms[data.index(entry)]).tokens for entry in distinct]
    domains, groups = curve.domains(source, models.arms[0]), curve.groups(source, models.arms[0])

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
        return sink_statistics(trace, sink, length=tokens.shape[1]) | attention_statistics(trace)

    def job(
        params: Decoder, inputs: tuple[Array, TablesByLength], shared: tuple[Any, dict[str, Any], Any]
    ) -> tuple[Statistics, CaseLosses]:
        (text, tables), (texts, domains, task) = inputs, shared
        batches, evaluate = texts[text], evaluation(params, tables, cfg)
        row = tables[batches.shape[-1] - 1]
        statistics = evaluate(batches, of_layer=of_layer)[1]
        statistics[reading("early_divergence")] = early_divergence(params, row, batches, cfg)
        statistics[reading("gradient_norm")] = loss_gradient_norms(params, row, batches[0], cfg)
        statistics |= attention_maps(params, row, batches[0, :, : settings.map], cfg)
        # One forward pass is compiled, and run once for each case.
        of_case = partial(case_losses, params, row, batches, cfg, partial(curve.losses, shared=task), settings.hidden)
        of_cases = jax.lax.map(of_case, loss_cases(cfg, settings.hidden))
        return statistics | _dormancy(evaluate, domains, sink.epsilon), of_cases

    rows = models.tables_by_length(curve.lengths(models.arms[0]))
    inputs = [(np.int32(distinct.index(entry)), tables) for entry, tables in zip(data, rows, strict=True)]
    shared = np.stack(texts), domains, source.shared
    results = models.run("ablation", job, inputs, shared, *(text.shape[1] for text in (texts[0], *domains.values())))
    return [statistics | loss_gains(of_cases, cfg, settings.hidden, groups) for statistics, of_cases in results]


def _dormancy(evaluate: Evaluation, domains: dict[str, Int[Array, "C B S_and_1"]], threshold: float) -> Statistics:
    """First-token mass [L, N] and share of dormant heads of each domain; of two domains the heads dormant in one only."""

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B S"]) -> Statistics:  # noqa: ARG001
        return {reading("first_token_mass"): mean_mass(trace.attention.first)}

    masses: dict[str, Float[Array, "L N"]] = {}
    statistics: Statistics = {}
    for domain, batches in domains.items():
        masses[domain] = evaluate(batches, of_layer=of_layer)[1][reading("first_token_mass")]
        statistics[reading("first_token_mass", domain=domain)] = masses[domain]
        statistics[reading("dormant_share", domain=domain)] = dormant_share(masses[domain], threshold=threshold)
    if len(masses) == 2:
        statistics[reading("active_dormant_share")] = active_dormant_share(*masses.values(), threshold=threshold)
    return statistics
