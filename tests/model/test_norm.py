"""RMSNorm and LayerNorm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.norm import Norm, init_norm, layer_norm, normalise, rms_norm


def draw(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(3 * np.random.default_rng(seed).standard_normal(shape) + 1, jnp.float32)


def test_rms_norm_has_unit_mean_square_at_any_scale():
    x = draw(0, 2, 3, 64)
    y = rms_norm(x, jnp.ones(64))
    np.testing.assert_allclose(jnp.mean(y * y, axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(rms_norm(1000 * x, jnp.ones(64)), y, atol=1e-5)


def test_layer_norm_has_mean_zero_and_variance_one_wherever_x_lies():
    x = draw(1, 2, 3, 64)
    y = layer_norm(x, jnp.ones(64), jnp.zeros(64))
    np.testing.assert_allclose(jnp.mean(y, axis=-1), 0, atol=1e-5)
    np.testing.assert_allclose(jnp.var(y, axis=-1), 1, rtol=1e-4)
    np.testing.assert_allclose(layer_norm(x + 50, jnp.ones(64), jnp.zeros(64)), y, atol=1e-4)


def test_scale_and_bias_come_last():
    x, scale, bias = draw(2, 5, 8), draw(3, 8), draw(4, 8)
    np.testing.assert_allclose(rms_norm(x, scale), rms_norm(x, jnp.ones(8)) * scale[None], rtol=1e-6)
    expected = layer_norm(x, jnp.ones(8), jnp.zeros(8)) * scale[None] + bias[None]
    np.testing.assert_allclose(layer_norm(x, scale, bias), expected, rtol=1e-5)


def test_zeros_stay_zeros_with_finite_gradients():
    for norm in (Norm(jnp.ones(4), None), Norm(jnp.ones(4), jnp.zeros(4))):
        np.testing.assert_array_equal(normalise(norm, jnp.zeros((2, 4))), 0)
        assert np.isfinite(jax.grad(lambda x, norm=norm: normalise(norm, x).sum())(jnp.zeros((2, 4)))).all()


@pytest.mark.usefixtures("mesh")
@pytest.mark.parametrize("bias", [False, True])
def test_a_bias_makes_it_layer_norm(bias):
    norm, x = init_norm(8, bias=bias), draw(5, 2, 8)
    assert (norm.bias is not None) == bias
    expected = layer_norm(x, jnp.ones(8), jnp.zeros(8)) if bias else rms_norm(x, jnp.ones(8))
    np.testing.assert_array_equal(normalise(norm, x), expected)


def test_bfloat16_is_normalised_in_float32():
    """Squares of 2^70 overflow neither type; the mean over 4096 channels would be lost in bfloat16."""
    x = draw(6, 1, 4096).astype(jnp.bfloat16)
    y = rms_norm(x, jnp.ones(4096))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y.astype(jnp.float32), rms_norm(x.astype(jnp.float32), jnp.ones(4096)), rtol=2**-8)
