"""Sparsity of feed-forward layers and effective rank of what a layer computes, for studies of gates."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.measure.kinds.plugin import of_layer
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.runtime.errors import UserError
from leadline.model.block import LayerTrace
from leadline.model.mesh import place

# τ of `near_zero`: 0 counts what is exactly zero, as after a ReLU.
THRESHOLDS = (0.0, 0.01, 0.1)


@of_layer(Quantity("near_zero", "share", "hidden units with |a| <= τ · rms(a) of their token", axes=("layer",)))
def near_zero(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
    """`near_zero_share` of the hidden units of the feed-forward, with the dimension `threshold` for τ."""
    if trace.hidden is None:
        raise UserError("near_zero is of a feed-forward of one network: leave it out of measure.functions, or model.experts")
    return {reading("near_zero", threshold=tau): near_zero_share(trace.hidden, tau) for tau in THRESHOLDS}


@of_layer(Quantity("attention_rank", "dimensions", "effective rank of attention's output", "", "roy2007", ("layer",), digits=2))
def attention_rank(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Float[Array, ""]:  # noqa: ARG001
    """`effective_rank` of what attention gives the residual stream, after its projection and gates."""
    return effective_rank(trace.output)


@of_layer(Quantity("residual_rank", "dimensions", "effective rank of the residual stream", "", "roy2007", ("layer",), digits=2))
def residual_rank(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Float[Array, ""]:  # noqa: ARG001
    """`effective_rank` of the residual stream after the layer."""
    return effective_rank(trace.residual)


def near_zero_share(hidden: Float[Array, "B T F"], tau: float) -> Float[Array, ""]:
    """Share of the hidden units a of all tokens with

        |a_f| <= τ rms(a),      rms(a) = sqrt(1/F Σ_f a_f²),

    with the scale of each token, so that the share does not depend on that of the weights. All units of a token count where all
    are zero. float32.
    """
    size = jnp.abs(hidden.astype(jnp.float32))
    rms = jnp.sqrt(jnp.mean(jnp.square(size), axis=-1, keepdims=True))
    return jnp.mean(size <= tau * rms, dtype=jnp.float32)


def effective_rank(x: Float[Array, "B T D"]) -> Float[Array, ""]:
    """exp of the entropy of the normalised singular values of each text, a mean over texts (Roy and Vetterli 2007):

        exp(-Σ_i p_i ln p_i),      p_i = σ_i / Σ_j σ_j

    Rows are not centred. It is r for r equal singular values and 1 for tokens that are multiples of one vector. A text of zeros
    has 0. float32.
    """
    texts = place(x.astype(jnp.float32), P(None, None, None))
    # A text at a time: jaxlib 0.10 divides a batch among the threads of the CPU, and two devices that do so at once wait for
    # each other for ever.
    sigma = jax.lax.map(lambda text: jnp.linalg.svd(text, compute_uv=False), texts)
    total = jnp.sum(sigma, axis=-1, keepdims=True)
    p = sigma / jnp.where(total > 0, total, 1)
    entropy = -jnp.sum(jax.scipy.special.xlogy(p, p), axis=-1)
    return jnp.mean(jnp.where(total[:, 0] > 0, jnp.exp(entropy), 0))
