"""The softmax with an extra logit: its sums, its limits and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.kernels.softmax import softmax_terms


def scores(seed: int = 0, scale: float = 1.0) -> jax.Array:
    return jnp.asarray(scale * np.random.default_rng(seed).standard_normal((4, 3, 11)), jnp.float32)


def probabilities(x: jax.Array, logit: float) -> tuple[jax.Array, jax.Array]:
    numerators, total, extra, *_ = softmax_terms(x, jnp.full((1, 3), logit))
    return numerators / total[..., None], extra / total


@pytest.mark.parametrize("logit", [-jnp.inf, -5.0, 0.0, 3.0, 200.0])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_rows_and_extra_sum_to_one(logit, scale):
    p, extra = probabilities(scores(scale=scale), logit)
    np.testing.assert_allclose(p.sum(axis=-1) + extra, 1, rtol=1e-6)


def test_logit_of_minus_infinity_is_the_plain_softmax_to_the_last_bit():
    p, extra = probabilities(scores(), -jnp.inf)
    np.testing.assert_array_equal(p, jax.nn.softmax(scores(), axis=-1))
    np.testing.assert_array_equal(extra, 0)


def test_logit_of_zero_is_the_softmax_off_by_one():
    x = np.asarray(scores(), np.float64)
    p, extra = probabilities(scores(), 0.0)
    np.testing.assert_allclose(p, np.exp(x) / (1 + np.exp(x).sum(axis=-1, keepdims=True)), rtol=1e-6)
    np.testing.assert_allclose(extra, 1 / (1 + np.exp(x).sum(axis=-1)), rtol=1e-6)


def test_extra_logit_is_a_column_of_the_plain_softmax():
    """The softmax over scores with b appended; its gradient as well, in the scores and in b."""
    weights = scores(1)

    def ours(x, b):
        numerators, total, *_ = softmax_terms(x, b)
        return jnp.sum(weights * numerators / total[..., None])

    def appended(x, b):
        column = jnp.broadcast_to(b[..., None], (*x.shape[:-1], 1))
        return jnp.sum(weights * jax.nn.softmax(jnp.concatenate([x, column], axis=-1), axis=-1)[..., :-1])

    b = jnp.asarray([[0.3, -1.0, 2.0]])
    for found, expected in zip(*(jax.jit(jax.grad(f, (0, 1)))(scores(), b) for f in (ours, appended)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_adding_to_every_logit_changes_nothing():
    p, extra = probabilities(scores(), 0.5)
    shifted, shifted_extra = probabilities(scores() + 64, 64.5)
    np.testing.assert_allclose(p, shifted, rtol=1e-4)
    np.testing.assert_allclose(extra, shifted_extra, rtol=1e-4)


def test_a_row_that_sees_nothing_gives_nothing_and_no_nan():
    nothing = jnp.full((1, 3, 5), -jnp.inf)

    def total(x, b):
        numerators, total, *_ = softmax_terms(x, b)
        return jnp.sum(numerators / total[..., None])

    b = jnp.full((1, 3), -jnp.inf)
    assert total(nothing, b) == 0
    for gradient in jax.jit(jax.grad(total, (0, 1)))(nothing, b):
        np.testing.assert_array_equal(gradient, 0)
    _, denominator, extra, *_ = softmax_terms(nothing, jnp.zeros((1, 3)))
    np.testing.assert_array_equal(extra / denominator, 1)
