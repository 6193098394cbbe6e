"""Softmax with one extra logit in the denominator."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.terms import Terms


def softmax_terms(scores: Float[Array, "*B S"], extra_logit: Float[Array, "*#B"]) -> Terms:
    """p_j = e^(s_j - m) / (e^(b - m) + Σ_j' e^(s_j' - m)),      m = max(b, max_j s_j).

    b = -inf is the plain softmax, b = 0 the softmax off by one (Miller 2023), a trained b the learned sink of gpt-oss (OpenAI
    2025); b is not scaled by 1/sqrt(H). A row of which every score and b are -inf has p = 0. float32 or better in and
    out; b broadcasts.
    """
    largest = jax.lax.stop_gradient(jnp.maximum(jnp.max(scores, axis=-1), extra_logit))
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    numerators = jnp.exp(scores - largest[..., None])
    extra = jnp.exp(extra_logit - largest)  # 0 where b = -inf
    total = extra + jnp.sum(numerators, axis=-1)
    total = jnp.where(total == 0, 1, total)
    return Terms(numerators, total, extra, total, largest + jnp.log(total))
