"""What is measured of language models that are taken apart."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.anatomy import anatomy, changes, maps, taken_apart
from experiments.config.measure import AnatomyMeasure
from experiments.config.study import Arm
from experiments.data.source import TextSource
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate, in_batches
from experiments.group import Point
from experiments.measure.dormancy import dormant_in_one, dormant_share
from experiments.measure.layers import layer_statistics, norm_statistics
from experiments.measure.perplexity import mean_loss
from experiments.measure.sinks import mean_mass
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

# Norms of the first token are compared with those of tokens from here on.
START = 8
# What the curves measure on shorter windows: of whole ones it has the length in its name.
AT_LENGTH = frozenset({"sink_rate", "first_token_mass", "logit_mass", "loss"})
# What is told layer by layer, besides one number for all.
BY_LAYER = (
    "first_token_mass", "entropy", "value_norm_ratio", "residual_norm_ratio", "activation_ratio", "kurtosis",
    "early_divergence", "gradient_norm",
)  # fmt: skip


class AnatomyMeasurer:
    """Sinks and norms on short windows along the way; at the end everything, at the training length."""

    def batches(self, source: TextSource, measure: AnatomyMeasure) -> Int[np.ndarray, "C B T"]:
        self._windows(source, measure)  # what is too short for the end is said at the beginning
        length = measure.sink.length
        return in_batches(source.held_out(length, measure.sequences * length), TOKENS_AT_ONCE)

    def _windows(self, source: TextSource, measure: AnatomyMeasure) -> Int[np.ndarray, "C B T"]:
        return in_batches(source.held_out(source.data.length, measure.tokens), TOKENS_AT_ONCE)

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Int[Array, "C B T"],
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: AnatomyMeasure,
    ) -> Statistics:
        def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
            found = layer_statistics(trace, token=measure.sink.token, epsilon=measure.sink.epsilon)
            return found | norm_statistics(trace, start=START)

        return evaluate(params, tables, batches, model, of_layer=of_layer, of_losses=_of_losses)

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: TextSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """Of whole windows of the training length; dormancy and the map of windows as long as those of the curves."""
        measure: Any = arms[0].measure
        length = source.data.length
        domains = source.by_domain(measure.sink.length, measure.sequences)
        texts = [in_batches(windows, TOKENS_AT_ONCE) for windows in domains.values()]
        sink = {"token": measure.sink.token, "epsilon": measure.sink.epsilon, "start": START}

        def job(params: Decoder, own: tuple[Array, PositionTables], shared: tuple[Any, list[Any]]) -> Statistics:
            (_, row), (batches, texts) = own, shared
            found = anatomy(params, row, batches, model, _of_losses, **sink)
            found = {f"{name}.{length}" if name in AT_LENGTH else name: value for name, value in found.items()}
            found |= changes(params, row, batches, model, _of_losses, hidden=measure.hidden)
            found |= maps(params, row, batches[0, :, : measure.map], model)
            masses = {name: _mass(params, row, text, model) for name, text in zip(domains, texts, strict=True)}
            return found | _dormancy(masses, measure.sink.epsilon)

        windows = self._windows(source, measure)
        points = taken_apart(arms, params, job, (windows, texts), model, programs, rows=windows.shape[1])
        return [point | _by_layer(point, length) for point in points]


def _by_layer(point: Point, length: int) -> Point:
    """`kurtosis.layer3` … of layers counted from 1: the mean over the heads of a layer."""
    names = {name: f"{name}.{length}" if name in AT_LENGTH else name for name in BY_LAYER}
    return {
        f"{name}.layer{layer}": np.asarray(np.mean(row))
        for name, own in names.items()
        for layer, row in enumerate(point[own], start=1)
    }


def _of_losses(losses: Float[Array, "B T"], tokens: Int[Array, "B T+1"]) -> Statistics:  # noqa: ARG001
    return {"loss": mean_loss(losses)}


def _mass(params: Decoder, row: PositionTables, batches: Int[Array, "C B T"], model: DecoderConfig) -> Float[Array, "L N"]:
    """What the first token receives in each head, of all queries."""
    found = evaluate(
        params,
        row,
        batches,
        model,
        of_layer=lambda trace, _: {"mass": mean_mass(trace.attention.first)},
        of_losses=lambda *_: {},
    )
    return found["mass"]


def _dormancy(masses: dict[str, Float[Array, "L N"]], threshold: float) -> Statistics:
    """Of each domain, and of two what they do not share."""
    found = {f"dormant_{domain}": dormant_share(mass, threshold=threshold) for domain, mass in masses.items()}
    if len(masses) == 2:
        first, second = masses.values()
        found["dormant_in_one"] = dormant_in_one(first, second, threshold=threshold)
        found["domain_mass"] = jnp.stack([first, second])
    return found
