"""Statistics of one layer, from its trace."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.experiments.config.measure import SinkRate
from leadline.experiments.measure.activations import (
    activation_ratio,
    gate_mean,
    gate_share_under,
    kurtosis,
    massive_activations,
)
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.keys import key_cosines, logit_gap, share_outside
from leadline.experiments.measure.sinks import first_norm_ratio, mean_mass, sink_rate
from leadline.experiments.records.measurement import Dim, reading
from leadline.model.block import LayerTrace

# A gate below this lets almost nothing through.
CLOSED = 0.1
# Queries and norms count from this position on: earlier queries see too few keys to show where a head rests.
START = 8


def sink_statistics(trace: LayerTrace, sink: SinkRate, **dims: Dim) -> Statistics:
    """Sink rate, and the attention that the first token and the sink logit receive, of each head [N]."""
    return {
        reading("sink_rate", **dims): sink_rate(trace.attention.received, token=sink.token, epsilon=sink.epsilon),
        reading("first_token_mass", **dims): mean_mass(trace.attention.first),
        reading("sink_logit_mass", **dims): mean_mass(trace.attention.sink),
    }


def layer_statistics(trace: LayerTrace) -> Statistics:
    """The activation ratio [], mean and closed share of a gate [gates], and in texts of more than START tokens the norms of
    the first token over the others': of its value by head [K], and of the residual stream behind the layer []."""
    statistics: Statistics = {reading("activation_ratio"): activation_ratio(trace.residual)}
    if trace.gate is not None:
        statistics[reading("gate_mean")] = gate_mean(trace.gate)
        statistics[reading("gate_closed")] = gate_share_under(trace.gate, CLOSED)
    if trace.residual.shape[1] > START:
        statistics[reading("value_drain_ratio")] = first_norm_ratio(trace.value_norm, start=START)
        statistics[reading("residual_norm_ratio")] = first_norm_ratio(_norm(trace.residual), start=START)
    return statistics


def attention_statistics(trace: LayerTrace) -> Statistics:
    """What explains the sink of a trained layer.

    By head: attention to the first token from the later half of the queries, entropy, and where scores are products of queries
    and keys, the norm of the first key over the others', cosines, the gap of logits and the subspace of the keys. Of the
    residual stream behind the layer: the three largest activations over the median, and kurtosis.
    """
    tokens = trace.residual.shape[1]
    later = jnp.broadcast_to(jnp.arange(tokens)[None] >= tokens // 2, trace.residual.shape[:2])
    statistics: Statistics = {
        reading("far_mass"): mean_mass(trace.attention.first, later),
        reading("entropy"): mean_mass(trace.attention.entropy),
        reading("massive_activations"): massive_activations(trace.residual),
        reading("kurtosis"): kurtosis(trace.residual),
    }
    if trace.query is None or trace.key is None:
        return statistics
    query, key = _on_every_device(trace.query), _on_every_device(trace.key)
    cosines, subspace = key_cosines(query, key, start=START), share_outside(key)
    return statistics | {
        reading("key_norm_ratio"): first_norm_ratio(_norm(key), start=START),
        reading("key_cosine"): cosines.first,
        reading("key_cosine_others"): cosines.others,
        reading("logit_gap"): logit_gap(query, key, scale=trace.value.shape[-1] ** -0.5, start=START),
        reading("key_outside"): subspace.share,
        reading("key_dims"): subspace.dims,
    }


def _on_every_device(x: Float[Array, "B T heads H"]) -> Float[Array, "B T heads H"]:
    """All heads on every device of the model axis, because statistics regroup them."""
    return jax.reshard(x, P("data", None, None, None))


def _norm(x: Float[Array, "B T *heads H"]) -> Float[Array, "B T *heads"]:
    return jnp.linalg.norm(x.astype(jnp.float32), axis=-1)
