"""Sigmoid attention: every key by itself."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from model.kernels.terms import Terms


def sigmoid_terms(scores: Float[Array, "*B S"], bias: Float[Array, ""], *, normalised: bool) -> Terms:
    """p_j = σ(s_j + b), or that over its sum. b = -ln T starts with a mass of 1 / (1 + 1/T) a row of T equal scores
    (Ramapuram et al. 2024, arXiv:2409.04431); normalised, keys compete again (Gu et al. 2024, arXiv:2410.10781, Table 6).
    """
    numerators = jax.nn.sigmoid(scores + bias)  # 0 at -inf
    mass = jnp.sum(numerators, axis=-1)
    mass = jnp.where(mass == 0, 1, mass)
    return Terms(numerators, mass if normalised else jnp.ones_like(mass), jnp.zeros_like(mass), mass)
