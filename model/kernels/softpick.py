"""Softpick: a softmax that is rectified, so that a head can attend to nothing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.terms import Terms

EPSILON = 1e-8  # of the published code; the row of a query that sees no key is 0


def softpick_terms(scores: Float[Array, "*B S"]) -> Terms:
    """p_j = relu(e^(s_j) - 1) / (Σ_j' |e^(s_j') - 1| + ε) over visible keys (Zuhri et al. 2025, arXiv:2504.20966).

    Scores below 0 get no weight but still a gradient, by the denominator. Both terms are multiplied by e^-m, m = max(0, max s).
    """
    largest = jax.lax.stop_gradient(jnp.maximum(jnp.max(scores, axis=-1, keepdims=True), 0))
    visible = jnp.isfinite(scores)
    risen = jnp.where(visible, jnp.exp(scores - largest) - jnp.exp(-largest), 0)
    numerators = jax.nn.relu(risen)
    total = jnp.sum(jnp.abs(risen), axis=-1) + EPSILON
    mass = jnp.sum(numerators, axis=-1)
    return Terms(numerators, total, jnp.zeros_like(total), jnp.where(mass == 0, 1, mass))
