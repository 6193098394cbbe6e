"""The clipped softmax: its limits, its zeros and ones, and what has a gradient."""

import jax
import jax.numpy as jnp
import numpy as np

from model.kernels.clipped import clipped_terms
from model.kernels.softmax import softmax_terms
from tests.model.kernels.rows import scores, unseen, weights


def none(x: jax.Array) -> jax.Array:
    return jnp.full((1,) * (x.ndim - 1), -jnp.inf)


def clipped(x: jax.Array, low: float, high: float) -> np.ndarray:
    return weights(clipped_terms(x, none(x), jnp.float32(low), jnp.float32(high)))


def test_between_zero_and_one_it_is_the_softmax():
    np.testing.assert_allclose(clipped(scores(), 0.0, 1.0), weights(softmax_terms(scores(), none(scores()))), rtol=1e-6)


def test_small_weights_are_zero_and_large_ones_one():
    x = jnp.log(jnp.asarray([[0.9, 0.08, 0.02]]))
    np.testing.assert_allclose(clipped(x, -0.05, 1.2), [[1.0, 1.25 * 0.08 - 0.05, 0.0]], atol=1e-6)


def test_what_is_clipped_has_no_gradient():
    x = jnp.log(jnp.asarray([[0.97, 0.02, 0.01]]))

    def largest(x):
        return clipped_terms(x, none(x), jnp.float32(-0.05), jnp.float32(1.2)).numerators[0, 0]

    np.testing.assert_array_equal(jax.grad(largest)(x), 0)


def test_the_extra_logit_takes_its_share():
    terms = clipped_terms(scores(), jnp.zeros((1, 1)), jnp.float32(0), jnp.float32(1))
    np.testing.assert_allclose(terms.mass, 1, rtol=1e-6)
    np.testing.assert_allclose(np.sum(terms.numerators, axis=-1), 1 - np.asarray(terms.extra), rtol=1e-6)


def test_without_a_visible_key_there_is_no_weight():
    np.testing.assert_array_equal(clipped(unseen(), -0.05, 1.2), 0)
