"""PoPE: magnitudes from the content, phases from the position."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import init_polar_phase, polar

H, HEADS = 6, 3


def vectors(seed: int, tokens: int = 5) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal((2, tokens, HEADS, H)), jnp.float32)


def angles(positions: np.ndarray) -> jax.Array:
    return jnp.asarray(positions[:, None] * inverse_frequencies(2 * H, 100.0)[None, :], jnp.float32)


def phases(seed: int = 9) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).uniform(-2 * math.pi, 0, (HEADS, H)), jnp.float32)


def test_the_length_of_each_pair_is_the_magnitude_at_every_position_and_phase():
    x = vectors(0)
    y = np.asarray(polar(x, angles(np.arange(5) * 30), phases())).reshape(2, 5, HEADS, 2, H)
    np.testing.assert_allclose(np.hypot(y[..., 0, :], y[..., 1, :]), np.log1p(np.exp(x)), rtol=1e-5)


def test_without_position_and_phase_the_score_is_a_sum_of_products_of_magnitudes():
    q, k = vectors(1), vectors(2)
    zero = jnp.zeros((5, H))
    found = jnp.einsum("btnh,bsnh->bnts", polar(q, zero, None), polar(k, zero, jnp.zeros((HEADS, H))))
    expected = np.einsum("btnh,bsnh->bnts", *(np.log1p(np.exp(np.asarray(x))) for x in (q, k)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found > 0).all()


@pytest.mark.parametrize("shift", [1, 40])
def test_scores_depend_on_distance_only_(shift):
    q, k, positions = vectors(3), vectors(4), np.arange(5)

    def scores(offset):
        a, b = polar(q, angles(positions + offset), None), polar(k, angles(positions + offset), phases())
        return jnp.einsum("btnh,bsnh->bnts", a, b)

    np.testing.assert_allclose(scores(shift), scores(0), atol=1e-3)


def test_a_phase_is_added_to_the_angle_within_its_bounds():
    x, turned = vectors(5), angles(np.arange(5))
    for phase, used in ((-1.0, -1.0), (0.5, 0.0), (-9.0, -2 * math.pi)):
        found = polar(x, turned, jnp.full((HEADS, H), phase))
        np.testing.assert_allclose(found, polar(x, turned + used, None), atol=1e-5)


def test_the_gradient_of_a_phase_is_whole_at_the_bounds_and_none_beyond():
    x, turned = vectors(6), angles(np.arange(5))
    weights = vectors(7)
    slope = jax.jit(jax.grad(lambda phase: jnp.sum(weights * polar(x, turned, phase)[..., :H])))
    slopes = [slope(jnp.full((HEADS, H), p)) for p in (0.0, -1e-4, -2 * math.pi, 1e-3, -7.0)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=2e-3)
    np.testing.assert_allclose(slopes[2], slopes[1], atol=2e-3)
    assert np.abs(slopes[1]).min() > 0.005
    assert not slopes[3].any()
    assert not slopes[4].any()


def test_values_and_gradients_are_finite_for_any_content_and_the_type_is_kept(mesh):  # noqa: ARG001
    x = jnp.broadcast_to(jnp.asarray([-1e4, -10.0, 0.0, 10.0, 1e4, 1.0]), (2, 5, HEADS, H))
    value, gradient = jax.jit(jax.value_and_grad(lambda x: jnp.sum(polar(x, angles(np.arange(5)), None))))(x)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    y = polar(x.astype(jnp.bfloat16), angles(np.arange(5)), init_polar_phase(HEADS, H))
    assert y.dtype == jnp.bfloat16
