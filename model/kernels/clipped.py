"""Clipped softmax: weights that can be exactly 0 and 1 at finite scores."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.softmax import softmax_terms
from model.kernels.terms import Terms


def clipped_terms(
    scores: Float[Array, "*B S"], extra_logit: Float[Array, "*#B"], low: Float[Array, ""], high: Float[Array, ""]
) -> Terms:
    """p_j = clip((high - low) · softmax(s)_j + low, 0, 1), low <= 0, high >= 1 (Bondarenko et al. 2023, arXiv:2306.12929).

    low = 0, high = 1 is the softmax; low = -α / T with 1 < α < 4 is their recipe for T tokens. The weights do not sum to 1.
    What is clipped has no gradient. The extra logit, if there is one, takes part in the softmax and is not clipped.
    """
    plain = softmax_terms(scores, extra_logit)
    stretched = (high - low) * (plain.numerators / plain.total[..., None]) + low
    weights = jnp.clip(stretched, 0, 1)
    extra = plain.extra / plain.total
    mass = jnp.sum(weights, axis=-1) + extra
    return Terms(weights, jnp.ones_like(mass), extra, jnp.where(mass == 0, 1, mass))
