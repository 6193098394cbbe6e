"""ReLU in the place of the exponential."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.terms import Terms

EPSILON = 1e-8  # keeps the row of a query all of whose scores are negative at 0


def rectified_terms(scores: Float[Array, "*B S"], divisor: Literal["one", "keys", "sum"]) -> Terms:
    """p_j = relu(s_j) / d, d being 1, the number of visible keys, or Σ_j' relu(s_j') + ε.

    Divided by the keys it is the attention in which sinks do not arise (Guo et al. 2024, arXiv:2410.13835; Wortsman et al.
    2023, arXiv:2309.08586, divide by the whole length).
    """
    numerators = jax.nn.relu(scores)
    mass = jnp.sum(numerators, axis=-1)
    match divisor:
        case "one":
            total = jnp.ones_like(mass)
        case "keys":
            total = jnp.maximum(jnp.sum(jnp.isfinite(scores), axis=-1), 1).astype(mass.dtype)
        case "sum":
            total = mass + EPSILON
    return Terms(numerators, total, jnp.zeros_like(mass), jnp.where(mass == 0, 1, mass))
