"""Statistics of one layer, from its trace; massive activations, tails of activations, and gates."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float

from leadline.experiments.config.measure import START, SinkRate
from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.sinks import first_norm_ratio, key_cosines, logit_gap, mean_mass, share_outside, sink_rate
from leadline.experiments.records.measurement import Dim, reading
from leadline.model.block import LayerTrace
from leadline.model.mesh import TEXTS, place

# A gate below this lets almost nothing through.
CLOSED = 0.1


def sink_statistics(trace: LayerTrace, sink: SinkRate, **dims: Dim) -> Statistics:
    """Sink rate, and the attention that the first token and the sink logit receive, of each head [N]."""
    return {
        reading("sink_rate", **dims): sink_rate(trace.attention.received, token=sink.token, epsilon=sink.epsilon),
        reading("first_token_mass", **dims): mean_mass(trace.attention.first),
        reading("sink_logit_mass", **dims): mean_mass(trace.attention.sink),
    }


def layer_statistics(trace: LayerTrace) -> Statistics:
    """The activation ratio [], mean and closed share of a gate [gates], and in texts of more than START tokens the norms of
    the first token over the others': of its value by head [K], and of the residual stream after the layer []."""
    statistics: Statistics = {reading("activation_ratio"): activation_ratio(trace.residual)}
    if trace.gate is not None:
        statistics[reading("gate_mean")] = gate_mean(trace.gate)
        statistics[reading("gate_closed")] = gate_mean(trace.gate < CLOSED)
    if trace.residual.shape[1] > START:
        statistics[reading("value_drain_ratio")] = first_norm_ratio(trace.value_norm, start=START)
        statistics[reading("residual_norm_ratio")] = first_norm_ratio(_norm(trace.residual), start=START)
    return statistics


def attention_statistics(trace: LayerTrace) -> Statistics:
    """What explains the sink of a trained layer.

    By head: attention to the first token from the later half of the queries, entropy, and where scores are products of queries
    and keys, the norm of the first key over the others', cosines, the gap of logits and the subspace of the keys. Of the
    residual stream after the layer: the three largest activations over the median, and kurtosis.
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
    # All heads on every device of the model axis, because statistics regroup them.
    query, key = (jax.reshard(x, P("data", None, None, None)) for x in (trace.query, trace.key))
    (first, others), (outside, dims) = key_cosines(query, key, start=START), share_outside(key)
    return statistics | {
        reading("key_norm_ratio"): first_norm_ratio(_norm(key), start=START),
        reading("key_cosine"): first,
        reading("key_cosine_others"): others,
        reading("logit_gap"): logit_gap(query, key, scale=trace.value.shape[-1] ** -0.5, start=START),
        reading("key_outside"): outside,
        reading("key_dims"): dims,
    }


def _norm(x: Float[Array, "B T *heads H"]) -> Float[Array, "B T *heads"]:
    return jnp.linalg.norm(x.astype(jnp.float32), axis=-1)


def activation_ratio(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
    """max |h| / median |h| over the tokens and channels of a sequence, a mean over sequences.

    After Sun et al. 2024, arXiv:2402.17762, whose absolute threshold does not carry over to small models.
    """
    size = _sizes(residual)
    return jnp.mean(jnp.max(size, axis=1) / median_of_sizes(size))


def massive_activations(residual: Float[Array, "B T D"], largest: int = 3) -> Float[Array, "{largest}"]:
    """The i-th largest |h| over the median |h| of the tokens and channels of a sequence, for i from 1; a mean over sequences:

        |h|_(i) / median |h|

    Sun et al. 2024, arXiv:2402.17762, show the three largest of each layer. The first equals `activation_ratio`. float32.

    Raises:
        ValueError: unless 1 <= largest <= T D.
    """
    size = _sizes(residual)
    if not 1 <= largest <= size.shape[1]:
        raise ValueError(f"largest = {largest} must be between 1 and the {size.shape[1]} activations of a sequence")
    return jnp.mean(jax.lax.top_k(size, largest)[0] / median_of_sizes(size)[:, None], axis=0)


def kurtosis(x: Float[Array, "B T D"]) -> Float[Array, ""]:
    """E[(x - μ)⁴] / σ⁴ over the tokens and channels of a sequence, a mean over sequences: how heavy the tails are.

    After Bondarenko et al. 2023, arXiv:2306.12929. Normal numbers have 3, and 1 is the least. A sequence in which one number
    differs from all others has T D - 2 + 1/(T D - 1). NaN if all are equal. float32.
    """
    x = x.astype(jnp.float32)
    square = jnp.square(x - jnp.mean(x, axis=(1, 2), keepdims=True))
    return jnp.mean(jnp.square(square / jnp.mean(square, axis=(1, 2), keepdims=True)))


def _sizes(residual: Float[Array, "B T D"]) -> Float[Array, "B M"]:
    return jnp.abs(residual.astype(jnp.float32)).reshape(residual.shape[0], -1)


def median_of_sizes(size: Float[Array, "B M"]) -> Float[Array, " B"]:
    """The median of each row of non-negative numbers, float32.

    It equals that of a sort and takes a tenth of its time on a CPU. Non-negative floats are ordered as their bits are, so the
    k-th smallest is the largest bit pattern that at most k others lie below, found by one count for each of 31 bits. NaN gives
    NaN.
    """
    bits = jax.lax.bitcast_convert_type(size.astype(jnp.float32), jnp.int32)
    places = jnp.array([(size.shape[1] - 1) // 2, size.shape[1] // 2])

    def next_bit(i: Array, pattern: Array) -> Array:
        tried = pattern | (1 << (30 - i))
        below = jnp.sum(bits[:, None, :] < tried[:, :, None], axis=-1)
        return jnp.where(below <= places[None, :], tried, pattern)

    middle = jax.lax.fori_loop(0, 31, next_bit, place(jnp.zeros((size.shape[0], 2), jnp.int32), TEXTS))
    median = jnp.mean(jax.lax.bitcast_convert_type(middle, jnp.float32), axis=1)
    return jnp.where(jnp.any(jnp.isnan(size), axis=1), jnp.nan, median)


def gate_mean(gate: Float[Array, "B T heads *channels"] | Bool[Array, "B T heads *channels"]) -> Float[Array, " heads"]:
    """Mean gate of each head, over tokens and channels; of what is true or not the share, as of gates below a threshold."""
    return jnp.mean(gate, axis=(0, 1, *range(3, gate.ndim)))
