"""Both kernels of KERPLE: their values, their slopes and the published draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from leadline.model.positions.kerple import KerpleBias, init_kerple, kerple_logarithmic, kerple_power

KERNELS = pytest.mark.parametrize("kernel", [kerple_logarithmic, kerple_power])


def weights(seed: int = 0, heads: int = 4) -> KerpleBias:
    scale, shape = np.random.default_rng(seed).standard_normal((2, heads))
    return KerpleBias(scale=jnp.asarray(scale, jnp.float32), shape=jnp.asarray(shape, jnp.float32))


def test_the_logarithm_at_known_numbers():
    """p = 2 and a = 3: -2 ln(1 + 3 d)."""
    p = KerpleBias(scale=jnp.log(jnp.asarray([2.0])), shape=jnp.log(jnp.asarray([3.0])))
    np.testing.assert_allclose(kerple_logarithmic(p, 4)[0], -2 * np.log([1, 4, 7, 10]), rtol=1e-6)


def test_the_power_at_known_numbers():
    """a = 3 and p = 1, the slope of ALiBi; a weight without bound reaches p = 2, a Gaussian window."""
    p = KerpleBias(scale=jnp.log(jnp.asarray([3.0, 3.0])), shape=jnp.asarray([0.0, 100.0]))
    np.testing.assert_allclose(kerple_power(p, 4), [[0, -3, -6, -9], [0, -3, -12, -27]], rtol=1e-6)


@KERNELS
def test_the_bias_is_zero_at_the_query_itself_and_falls_with_distance(kernel):
    found = np.asarray(kernel(weights(), 500))
    assert (found[:, 0] == 0).all()
    assert (np.diff(found, axis=1) < 0).all()


@KERNELS
def test_the_value_at_a_distance_does_not_depend_on_the_number_of_keys(kernel):
    np.testing.assert_array_equal(kernel(weights(), 10), kernel(weights(), 100)[:, :10])


@KERNELS
def test_gradients_are_those_of_the_value(kernel):
    check_grads(lambda p: kernel(p, 6), (weights(),), order=1, modes=["rev"], atol=2e-2, rtol=2e-2, eps=1e-2)


@KERNELS
@pytest.mark.parametrize("size", [-20.0, 0.0, 20.0])
def test_value_and_gradient_are_finite_for_any_weight(kernel, size):
    p = KerpleBias(scale=jnp.full(2, size), shape=jnp.full(2, size))
    value, gradient = jax.jit(jax.value_and_grad(lambda p: jnp.sum(kernel(p, 1000))))(p)
    assert np.isfinite([value, *gradient.scale, *gradient.shape]).all()


@KERNELS
def test_models_side_by_side_are_those_one_by_one(kernel):
    both = jax.tree.map(lambda *x: jnp.stack(x), weights(1), weights(2))
    found = jax.vmap(lambda p: kernel(p, 9))(both)
    np.testing.assert_allclose(found, [kernel(weights(1), 9), kernel(weights(2), 9)], rtol=1e-6)


def test_the_published_draws(mesh):  # noqa: ARG001
    """Uniform on (0, 2) and (0, 1), of which 1 in 200 and 1 in 100 are lifted to 0.01."""
    p = init_kerple(jax.random.key(0), 4000)
    for numbers, top in ((np.exp(p.scale), 2), (np.exp(p.shape), 1)):
        assert numbers.min() == pytest.approx(0.01, rel=1e-5)
        assert numbers.max() < top * 1.00001
        assert numbers.mean() == pytest.approx(top / 2, rel=0.04)
    p = init_kerple(jax.random.key(0), 4000, power=True)
    exponent = 2 / (1 + np.exp(-np.asarray(p.shape)))
    assert 0.0099 < exponent.min() < 0.0101
    assert 1.98 < exponent.max() < 1.9901
    assert exponent.mean() == pytest.approx(1, rel=0.04)
    assert np.exp(p.scale).mean() == pytest.approx(0.5, rel=0.04)
