"""Softpick: its equation in float64, exact zeros, large scores, and the gradient of what gets no weight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.kernels.softpick import softpick_terms
from tests.model.kernels.rows import scores, unseen, weights


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_its_equation(scale):
    x = np.asarray(scores(scale=scale), np.float64)
    risen = np.where(np.isfinite(x), np.expm1(x), 0)
    expected = np.maximum(risen, 0) / np.abs(risen).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights(softpick_terms(scores(scale=scale))), expected, atol=2e-6)


def test_scores_below_zero_get_nothing_and_still_a_gradient():
    x = jnp.asarray([[1.0, -1.0]])

    def first(x):
        terms = softpick_terms(x)
        return terms.numerators[0, 0] / terms.total[0]

    p = weights(softpick_terms(x))
    assert p[0, 1] == 0
    assert p[0, 0] < 1
    assert jax.grad(first)(x)[0, 1] > 0


@pytest.mark.parametrize("score", [-200.0, 200.0])
def test_scores_of_any_size_are_finite(score):
    value, gradient = jax.value_and_grad(lambda x: jnp.sum(weights_of(x)))(jnp.asarray([[score, score + 1]]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def weights_of(x: jax.Array) -> jax.Array:
    terms = softpick_terms(x)
    return terms.numerators / terms.total[..., None]


def test_without_a_visible_key_there_is_no_weight():
    np.testing.assert_array_equal(weights(softpick_terms(unseen())), 0)
