"""Look-up, logits and token losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.embedding import embed, logits, token_losses

pytestmark = pytest.mark.usefixtures("mesh")


def draw(seed: int, *shape: int):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def test_look_up_and_its_gradient_are_those_of_one_hot_products():
    table, tokens, weights = draw(0, 7, 4), jnp.asarray([[1, 6, 1], [0, 2, 2]]), draw(1, 2, 3, 4)
    one_hot = np.eye(7, dtype=np.float32)[np.asarray(tokens)]
    np.testing.assert_array_equal(embed(table, tokens, scaled=False), one_hot @ np.asarray(table))
    gradient = jax.grad(lambda table: jnp.sum(weights * embed(table, tokens, scaled=False)))(table)
    np.testing.assert_allclose(gradient, np.einsum("btv,btd->vd", one_hot, weights), atol=1e-6)


def test_scaled_vectors_are_sqrt_of_the_width_longer():
    table, tokens = draw(2, 7, 16), jnp.asarray([[3, 4]])
    np.testing.assert_allclose(embed(table, tokens, scaled=True), 4 * embed(table, tokens, scaled=False), rtol=1e-6)


def test_tokens_outside_the_vocabulary_are_clipped():
    table = draw(3, 5, 4)
    np.testing.assert_array_equal(embed(table, jnp.asarray([[9, -1]]), scaled=False)[0], table[jnp.asarray([4, 0])])


def test_logits_are_float32_inner_products():
    x, table = draw(4, 2, 3, 8), draw(5, 11, 8)
    np.testing.assert_allclose(logits(x, table), np.asarray(x) @ np.asarray(table).T, atol=1e-5)
    assert logits(x.astype(jnp.bfloat16), table).dtype == jnp.float32


def test_losses_are_negative_log_probabilities():
    scores, targets = 4 * draw(6, 2, 3, 5), jnp.asarray([[0, 4, 2], [1, 1, 3]])
    exact = np.asarray(scores, np.float64)
    probabilities = np.exp(exact) / np.exp(exact).sum(axis=-1, keepdims=True)
    chosen = np.take_along_axis(probabilities, np.asarray(targets)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(token_losses(scores, targets), -np.log(chosen), rtol=1e-5)


def test_losses_of_huge_scores_are_finite_and_of_equal_scores_ln_of_the_vocabulary():
    huge = jnp.asarray([[[1e30, 0.0, -1e30]]])
    assert np.isfinite(token_losses(huge, jnp.asarray([[2]]))).all()
    np.testing.assert_allclose(token_losses(jnp.zeros((1, 1, 256)), jnp.asarray([[7]])), np.log(256), rtol=1e-6)
