"""Rows of scores for the tests of kernels."""

import jax
import jax.numpy as jnp
import numpy as np

from model.kernels.terms import Terms


def scores(seed: int = 0, scale: float = 1.0) -> jax.Array:
    """[4, 3, 11], of which the last two keys are not visible."""
    drawn = scale * np.random.default_rng(seed).standard_normal((4, 3, 11))
    drawn[..., -2:] = -np.inf
    return jnp.asarray(drawn, jnp.float32)


def unseen() -> jax.Array:
    """A row without a visible key."""
    return jnp.full((1, 5), -jnp.inf)


def weights(terms: Terms) -> np.ndarray:
    return np.asarray(terms.numerators / terms.total[..., None])
