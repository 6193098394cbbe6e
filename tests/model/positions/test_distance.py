"""A vector by distance as rows of a matrix, against an explicit look-up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.positions.distance import by_distance

HEADS = 3


def looked_up(bias: jax.Array, i: np.ndarray) -> np.ndarray:
    distance = i[:, None] - np.arange(bias.shape[1])[None, :]
    return np.where(distance >= 0, np.asarray(bias)[:, np.maximum(distance, 0)], 0)


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).standard_normal(shape), jnp.float32)


def causal(x: jax.Array | np.ndarray, i: np.ndarray) -> jax.Array:
    return jnp.where(i[:, None] >= np.arange(x.shape[2]), x, 0)


PLACES = pytest.mark.parametrize(
    ("start", "rows", "keys"), [(0, 1, 1), (0, 1, 7), (6, 1, 7), (0, 7, 7), (3, 4, 7), (2, 3, 9), (0, 2, 9)]
)


@PLACES
def test_row_i_and_column_j_hold_the_bias_of_distance_i_minus_j(start, rows, keys):
    bias, i = numbers(HEADS, keys), np.arange(start, start + rows)
    found = causal(jax.jit(by_distance)(bias, jnp.asarray(i)), i)
    np.testing.assert_array_equal(found, causal(looked_up(bias, i), i))


@PLACES
def test_the_gradient_is_that_of_a_look_up(start, rows, keys):
    bias, i, weights = numbers(HEADS, keys), np.arange(start, start + rows), numbers(HEADS, rows, keys)

    @jax.jit
    @jax.grad
    def ours(b):
        return jnp.sum(causal(weights * by_distance(b, jnp.asarray(i)), i))

    expected = np.zeros((HEADS, keys))
    for r, j in zip(*np.nonzero(i[:, None] >= np.arange(keys)), strict=True):
        expected[:, i[r] - j] += weights[:, r, j]
    np.testing.assert_allclose(ours(bias), expected, atol=1e-5)


def test_every_number_is_finite_where_keys_are_ahead_or_rows_are_surplus():
    """Five rows of which two are behind the text: their position is -1 and what they get is not used."""
    bias, i = numbers(HEADS, 8), jnp.asarray([5, 6, 7, -1, -1])
    found, pull = jax.vjp(lambda b: by_distance(b, i), bias)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:, :3, :6], looked_up(bias, np.asarray(i[:3]))[:, :, :6])
    assert np.isfinite(pull(jnp.ones_like(found))[0]).all()


def test_one_program_serves_every_block_and_maps_over_models():
    bias = numbers(2, HEADS, 9)
    traced = []

    @jax.jit
    def rows(bias, i):
        traced.append(i)
        return jax.vmap(by_distance, in_axes=(0, None))(bias, i)

    for start in (0, 4):
        i = np.arange(start, start + 3)
        for found, member in zip(rows(bias, jnp.asarray(i)), bias, strict=True):
            np.testing.assert_array_equal(causal(found, i), causal(looked_up(member, i), i))
    assert len(traced) == 1


def test_heads_keep_their_places_on_a_mesh(mesh):  # noqa: ARG001
    sharded = jax.reshard(numbers(HEADS, 9), jax.P("model", None))
    assert jax.typeof(by_distance(sharded, jnp.arange(4))).sharding.spec[0] == "model"
