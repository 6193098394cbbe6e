"""Sinks, attention and massive activations on long windows, one at a time."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import ContextMeasure
from leadline.experiments.measure.evaluate import Models, Statistics, evaluate
from leadline.experiments.measure.layers import attention_statistics, layer_statistics, sink_statistics
from leadline.experiments.measure.perplexity import evaluated, position_edges
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables

# What differs from window to window and has no mean.
PLACES = ("massive_channels", "massive_positions")


def context(models: Models, settings: ContextMeasure) -> list[Point]:
    """Statistics of every layer by `length`, a mean over windows, and where the largest activations of each window are.

    One program a length serves all models and windows.
    """
    points: list[Point] = [{} for _ in models.arms]
    for length in settings.lengths or (models.arms[0].data.length,):
        text, edges = models.source.text.held_out(length, settings.windows), position_edges(length)

        def job(params: Decoder, inputs: tuple[PositionTables, Array], shared: None, length: int = length) -> Statistics:  # noqa: ARG001
            def of_layer(trace: LayerTrace, tokens: Int[Array, "1 T"]) -> Statistics:  # noqa: ARG001
                return _statistics(trace, models, settings, length)

            return evaluate(params, inputs[0], inputs[1][None, None], models.model, of_layer=of_layer)[1]

        inputs = [(row, window) for row in models.tables(length) for window in text.windows]
        results = models.run(f"context of {length}", job, inputs, None, 1)
        for i, point in enumerate(points):
            windows = results[i * len(text.windows) : (i + 1) * len(text.windows)]
            stacked = jax.tree.map(lambda *values: np.stack(values), *windows)
            for key, values in stacked.items():
                point[key] = values.astype(np.int32) if key.quantity in PLACES else np.mean(values, axis=0)
            point |= {reading("position_edges", length=length): edges} | evaluated(text, length=length, of="context")
    return points


def _statistics(trace: LayerTrace, models: Models, settings: ContextMeasure, length: int) -> Statistics:
    channels, positions = largest_places(trace.residual, settings.largest)
    statistics = layer_statistics(trace) | attention_statistics(trace) | {
        reading("received_by_position"): received_by_position(trace.attention.received, position_edges(length)),
        reading("massive_channels"): channels,
        reading("massive_positions"): positions,
    }  # fmt: skip
    at_length = {key.at(length=length): value for key, value in statistics.items()}
    return at_length | sink_statistics(trace, models.arms[0].measure.sink, length=length)


def received_by_position(received: Float[Array, "B N S"], edges: Int[np.ndarray, " E"]) -> Float[Array, " E-1"]:
    """Mean over sequences, heads and the keys of each bin of

        α_k = 1/(T - k) Σ_{i >= k} A_ik,      k from 0,

    the attention to key k from the queries that see it (Gu et al. 2025, arXiv:2410.10781). Uniform attention gives the mean of
    1/(i + 1) over i >= k.

    Args:
        received: Σ_i A_ik.
        edges: bin i holds keys edges[i] <= k < edges[i + 1].
    """
    seen = jnp.arange(received.shape[-1], 0, -1).astype(jnp.float32)
    alpha = jnp.mean(received / seen[None, None], axis=(0, 1))
    sums = jnp.concatenate([jnp.zeros(1, alpha.dtype), jnp.cumsum(alpha)])
    return (sums[edges[1:]] - sums[edges[:-1]]) / np.diff(edges).astype(np.float32)


def largest_places(residual: Float[Array, "1 T D"], largest: int) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """Channel and position of the largest |h| of a text, the largest first; whole numbers in float32.

    Sun et al. 2024, arXiv:2402.17762: few channels, at the first token and the first delimiter.
    """
    size = jnp.abs(residual.astype(jnp.float32)).reshape(1, -1)
    places = jax.reshard(jax.lax.top_k(size, largest)[1], P(None, None))[0]
    channels, positions = places % residual.shape[2], places // residual.shape[2]
    return channels.astype(jnp.float32), positions.astype(jnp.float32)
