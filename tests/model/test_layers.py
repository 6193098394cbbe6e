"""Norms, feed-forward layers, embeddings and losses. What the first two compute is in test_block."""

import math
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.embedding import embed, logits, token_losses
from leadline.model.feedforward import Activation, feedforward, feedforward_weights
from leadline.model.linear import draw
from leadline.model.norm import Norm, init_norm, normalise, rms_norm
from tests.model.naive import numbers

pytestmark = pytest.mark.usefixtures("mesh")


@pytest.mark.parametrize("bias", [None, 0.5])
def test_scale_and_place_of_what_is_normalised_do_not_matter(bias):
    """RMSNorm has unit mean square; LayerNorm, which has a bias, mean zero and variance one around it."""
    x, norm = 3 * numbers(0, 2, 3, 64) + 1, Norm(jnp.ones(64), None if bias is None else jnp.full(64, bias))
    y = normalise(norm, x) - (bias or 0)
    np.testing.assert_allclose(jnp.mean(y * y, axis=-1), 1, rtol=1e-4)
    moved = 1000 * x if bias is None else 1000 * x + 50
    np.testing.assert_allclose(normalise(norm, moved) - (bias or 0), y, atol=1e-4)
    assert (np.abs(jnp.mean(y, axis=-1)).max() < 1e-5) == (bias is not None)


@pytest.mark.parametrize("bias", [False, True])
def test_zeros_stay_zeros_with_finite_gradients(bias):
    norm = init_norm(4, bias=bias)
    assert (norm.bias is not None) == bias
    np.testing.assert_array_equal(normalise(norm, jnp.zeros((2, 4))), 0)
    assert np.isfinite(jax.grad(lambda x: normalise(norm, x).sum())(jnp.zeros((2, 4)))).all()


def test_bfloat16_is_normalised_in_float32():
    """Squares of 2^70 overflow neither type; the mean over 4096 channels would be lost in bfloat16."""
    x = numbers(6, 1, 4096).astype(jnp.bfloat16)
    y = rms_norm(x, jnp.ones(4096))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y.astype(jnp.float32), rms_norm(x.astype(jnp.float32), jnp.ones(4096)), rtol=2**-8)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_only_the_gated_kind_has_a_gate_matrix(activation):
    p = draw(jax.random.key(0), feedforward_weights(6, 10, activation, 0.25))
    assert (p.gate is not None) == (activation == "swiglu")
    assert jnp.abs(p.down).max() <= 3 * 0.25 / math.sqrt(10)


def test_swiglu_without_its_gate_matrix_is_an_error():
    with pytest.raises(ValueError, match="swiglu needs a gate matrix"):
        feedforward(draw(jax.random.key(0), feedforward_weights(4, 8, "relu", 1.0)), jnp.zeros((1, 2, 4)), "swiglu")


def test_look_up_and_its_gradient_are_those_of_one_hot_products():
    table, tokens, weights = numbers(0, 7, 4), jnp.asarray([[1, 6, 1], [0, 2, 2]]), numbers(1, 2, 3, 4)
    one_hot = np.eye(7, dtype=np.float32)[np.asarray(tokens)]
    np.testing.assert_array_equal(embed(table, tokens, scaled=False), one_hot @ np.asarray(table))
    gradient = jax.grad(lambda table: jnp.sum(weights * embed(table, tokens, scaled=False)))(table)
    np.testing.assert_allclose(gradient, np.einsum("btv,btd->vd", one_hot, weights), atol=1e-6)


def test_tokens_outside_the_vocabulary_are_clipped():
    table = numbers(3, 5, 4)
    np.testing.assert_array_equal(embed(table, jnp.asarray([[9, -1]]), scaled=False)[0], table[jnp.asarray([4, 0])])


def test_logits_are_float32_inner_products():
    x, table = numbers(4, 2, 3, 8), numbers(5, 11, 8)
    np.testing.assert_allclose(logits(x, table), np.asarray(x) @ np.asarray(table).T, atol=1e-5)
    assert logits(x.astype(jnp.bfloat16), table).dtype == jnp.float32


def test_losses_are_negative_log_probabilities():
    scores, targets = 4 * numbers(6, 2, 3, 5), jnp.asarray([[0, 4, 2], [1, 1, 3]])
    exact = np.asarray(scores, np.float64)
    probabilities = np.exp(exact) / np.exp(exact).sum(axis=-1, keepdims=True)
    chosen = np.take_along_axis(probabilities, np.asarray(targets)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(token_losses(scores, targets), -np.log(chosen), rtol=1e-5)


def test_losses_of_huge_scores_are_finite_and_of_equal_scores_ln_of_the_vocabulary():
    huge = jnp.asarray([[[1e30, 0.0, -1e30]]])
    assert np.isfinite(token_losses(huge, jnp.asarray([[2]]))).all()
    np.testing.assert_allclose(token_losses(jnp.zeros((1, 1, 256)), jnp.asarray([[7]])), np.log(256), rtol=1e-6)
