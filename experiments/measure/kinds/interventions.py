"""What the loss gains by interventions on short windows, case by case, and the predictions that are decoded early."""

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import InterventionsMeasure
from leadline.experiments.measure.evaluate import LOGITS_AT_ONCE, TOKENS_AT_ONCE, Models, in_batches
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.perplexity import evaluated
from leadline.experiments.measure.trained import Case, CaseLosses, case_losses, early_divergence, loss_cases, loss_gains
from leadline.experiments.records.measurement import Point, reading
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables


def interventions(models: Models, settings: InterventionsMeasure) -> list[Point]:
    """`loss_change` by intervention, `early_divergence`, and `head_removed` where it is asked for, by `length`; with `loss`.

    The changes of the loss are measured without each group of held-out documents too. Early decoding, which takes the logits
    after every layer, is of the first batch alone. One program serves all models and cases, another one decodes early.
    """
    cfg, length, hidden = models.model, settings.length, settings.hidden
    text = models.source.text.held_out(length, settings.windows)
    batches = in_batches(text.windows, min(TOKENS_AT_ONCE, LOGITS_AT_ONCE // cfg.vocabulary))
    cases = jax.device_get(loss_cases(cfg, hidden, heads=settings.heads))
    count, tables = len(cases[1]), models.tables(length)
    told_apart = partial(curve_of(models.arms[0].data).losses, shared=models.source.shared)

    def losses(params: Decoder, inputs: tuple[PositionTables, Case], batches: Int[Array, "C B T_and_1"]) -> CaseLosses:
        return case_losses(params, inputs[0], batches, cfg, told_apart, hidden, inputs[1])

    def divergence(params: Decoder, row: PositionTables, batches: Int[Array, "C B T_and_1"]) -> Float[Array, " L"]:
        return early_divergence(params, row, batches[:1], cfg)

    inputs = [(row, jax.tree.map(lambda leaf, i=i: leaf[i], cases)) for row in tables for i in range(count)]
    changed = models.run("interventions", losses, inputs, batches, batches.shape[1])
    early = models.run("early decoding", divergence, tables, batches, batches.shape[1])
    points = []
    for i, of_layers in enumerate(early):
        of_cases = jax.tree.map(lambda *leaves: np.stack(leaves), *changed[i * count : (i + 1) * count])
        point = loss_gains(of_cases, cfg, hidden, text.groups_if_enough)
        point |= {reading("loss"): of_cases[0][reading("loss")][0], reading("early_divergence"): of_layers}
        at_length = {key.at(length=length): np.asarray(value) for key, value in point.items()}
        points.append(at_length | evaluated(text, length=length, of="interventions"))
    return points
