"""FIRE: what its network sees, and that nothing is infinite at the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.linear import draw
from leadline.model.positions.fire import FireBias, init_fire
from leadline.model.positions.fire import fire_bias as eager_fire_bias

fire_bias = jax.jit(lambda p, i, keys: eager_fire_bias(p, i, jnp.arange(keys)), static_argnums=2)


def weights(seed: int = 0, heads: int = 3, hidden: int = 8, c: float = 0.1, threshold: float = 4.0) -> FireBias:
    rng = np.random.default_rng(seed)
    shapes = [(hidden,), (hidden,), (hidden, heads), (heads,)]
    drawn = [jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes]
    return FireBias(jnp.log(jnp.float32(c)), jnp.log(jnp.float32(threshold)), *drawn)


def network(p: FireBias, x: np.ndarray) -> np.ndarray:
    units = np.maximum(x[..., None] * np.asarray(p.hidden) + np.asarray(p.hidden_bias), 0)
    return np.moveaxis(units @ np.asarray(p.output) + np.asarray(p.output_bias), -1, 0)


def test_the_network_sees_the_logarithm_of_the_distance_relative_to_that_of_the_position():
    p, i, keys = weights(), np.array([0, 2, 5, 9]), 10
    x = np.zeros((4, keys))
    for r, query in enumerate(i):
        for j in range(query + 1):
            x[r, j] = np.log(0.1 * (query - j) + 1) / np.log(0.1 * max(4.0, query) + 1)
    np.testing.assert_allclose(fire_bias(p, jnp.asarray(i), keys), network(p, x), atol=1e-5)


def test_up_to_the_threshold_only_the_distance_counts():
    p = weights(threshold=100.0)
    near, far = (fire_bias(p, jnp.asarray([start]), 60)[:, 0, start - 20 : start + 1] for start in (20, 59))
    np.testing.assert_allclose(near, far, atol=1e-6)


def test_beyond_the_threshold_the_first_key_is_always_at_one():
    p = weights()
    found = fire_bias(p, jnp.asarray([5, 50, 5000]), 1)[:, :, 0]
    np.testing.assert_allclose(found, np.tile(network(p, np.ones(1)), (1, 3)), atol=1e-5)


@pytest.mark.parametrize("row", [[0, 1, 2], [5, 6, -1], [0], [100_000]])
def test_value_and_gradient_are_finite(row):
    def total(p):
        return jnp.sum(fire_bias(p, jnp.asarray(row), 9) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(total))(weights())
    assert all(np.isfinite(x).all() for x in [value, *jax.tree.leaves(gradient)])


def test_c_and_the_threshold_are_trained_and_stay_positive():
    """Every row with a threshold above it depends on the threshold, every row on c."""
    gradient = jax.jit(jax.grad(lambda p, i: jnp.sum(fire_bias(p, i, 9) ** 2)))
    below, beyond = gradient(weights(), jnp.arange(4)), gradient(weights(), jnp.arange(5, 9))
    assert below.log_c != 0
    assert below.log_threshold != 0
    assert beyond.log_c != 0
    assert beyond.log_threshold == 0


def test_models_side_by_side_are_those_one_by_one():
    both = jax.tree.map(lambda *x: jnp.stack(x), weights(1), weights(2))
    found = jax.vmap(lambda p: fire_bias(p, jnp.arange(4), 4))(both)
    for one, seed in zip(found, (1, 2), strict=True):
        np.testing.assert_allclose(one, fire_bias(weights(seed), jnp.arange(4), 4), atol=1e-5)


def test_the_initial_bias_has_corners_between_its_ends(mesh):  # noqa: ARG001
    p = draw(jax.random.key(0), init_fire(4))
    assert (p.hidden.shape, p.output.shape) == ((32,), (32, 4))
    assert (float(jnp.exp(p.log_c)), float(jnp.exp(p.log_threshold))) == (pytest.approx(0.1), pytest.approx(512))
    corners = -p.hidden_bias / p.hidden
    assert ((corners > 0) & (corners < 1)).any()


@pytest.mark.parametrize("bad", [{"c": 0.0}, {"threshold": -1.0}])
def test_numbers_that_are_not_positive_are_an_error(bad):
    with pytest.raises(ValueError, match="FIRE needs c > 0 and a threshold > 0"):
        init_fire(4, **bad)
