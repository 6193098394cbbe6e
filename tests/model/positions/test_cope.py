"""CoPE: what it counts, and where the counting ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.mesh import make_mesh
from leadline.model.positions.cope import CopeBias, init_cope
from leadline.model.positions.cope import cope_bias as eager_cope_bias

B, K, ROWS, KEYS, H, POSITIONS = 2, 3, 4, 9, 5, 6
OPEN, SHUT = 1e4, -1e4  # scores whose gates are 1 and 0
cope_bias = jax.jit(eager_cope_bias)


def numbers(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def embedding(seed: int = 0) -> CopeBias:
    return CopeBias(embedding=numbers(seed, H, POSITIONS))


def causal(start: int = 0, rows: int = ROWS, keys: int = KEYS) -> jax.Array:
    return jnp.arange(keys)[None, :] <= jnp.arange(start, start + rows)[:, None]


def at_positions(p: CopeBias, q: jax.Array, position: np.ndarray) -> np.ndarray:
    """q · e at whole positions [B, K, q, S]."""
    products = np.einsum("bkqh,hp->bkqp", q, p.embedding)
    return np.take_along_axis(products, np.minimum(position, POSITIONS - 1), axis=3)


def test_open_gates_count_tokens_up_to_the_last_embedding():
    q, start = numbers(1, B, K, ROWS, H), 5
    found = cope_bias(embedding(), q, jnp.full((B, K, ROWS, KEYS), OPEN), causal(start))
    i, j = np.arange(start, start + ROWS)[:, None], np.arange(KEYS)[None, :]
    counted = np.broadcast_to(np.maximum(i - j + 1, 0), found.shape)
    assert counted.max() > POSITIONS - 1
    np.testing.assert_allclose(found, at_positions(embedding(), q, counted), atol=1e-5)


def test_shut_gates_count_nothing_and_open_ones_only_themselves():
    q = numbers(2, B, K, 1, H)
    scores = jnp.broadcast_to(jnp.asarray([SHUT, OPEN, SHUT, SHUT, OPEN, SHUT]), (B, K, 1, 6))
    found = cope_bias(embedding(), q, scores, jnp.ones((1, 6), bool))
    counted = np.broadcast_to([2, 2, 1, 1, 1, 0], found.shape)
    np.testing.assert_allclose(found, at_positions(embedding(), q, counted), atol=1e-5)


def test_between_whole_positions_the_bias_is_interpolated():
    """Scores of zero are gates of a half."""
    q = numbers(3, 1, 1, 1, H)
    found = cope_bias(embedding(), q, jnp.zeros((1, 1, 1, 3)), jnp.ones((1, 3), bool))[0, 0, 0]
    z = np.asarray(q[0, 0, 0] @ embedding().embedding)
    np.testing.assert_allclose(found, [(z[1] + z[2]) / 2, z[1], (z[0] + z[1]) / 2], atol=1e-5)


def test_hidden_keys_change_nothing():
    """So a row of a whole text and the same row against a cache agree, whatever stands behind it."""
    q, scores = numbers(4, B, K, ROWS, H), numbers(5, B, K, ROWS, KEYS)
    changed = jnp.where(causal(), scores, 1e9)
    np.testing.assert_array_equal(*(cope_bias(embedding(), q, s, causal()) for s in (scores, changed)))
    row = cope_bias(embedding(), q[:, :, 2:3], scores[:, :, 2:3, :3], causal(2, 1, 3))
    np.testing.assert_allclose(row, cope_bias(embedding(), q, scores, causal())[:, :, 2:3, :3], atol=1e-6)


def test_an_embedding_of_zeros_is_no_position(mesh):  # noqa: ARG001
    p = init_cope(H, POSITIONS)
    q, scores = numbers(6, B, K, ROWS, H), numbers(7, B, K, ROWS, KEYS)
    assert not cope_bias(p, q, scores, causal()).any()
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(q[..., :1] * cope_bias(p, q, scores, causal()))))(p)
    assert np.abs(gradient.embedding).max() > 0


@pytest.mark.parametrize("size", [0.0, 1.0, 100.0])
def test_value_and_gradients_are_finite_jitted_and_mapped(size):
    """Rows that see nothing included."""
    q, scores = numbers(8, B, K, ROWS, H), size * numbers(9, B, K, ROWS, KEYS)
    visible = causal().at[0].set(False)

    def total(p, q, scores):
        return jnp.sum(cope_bias(p, q, scores, visible) ** 2)

    both = jax.tree.map(lambda *x: jnp.stack(x), embedding(1), embedding(2))
    mapped = jax.jit(jax.vmap(jax.value_and_grad(total, (0, 1, 2)), in_axes=(0, None, None)))
    for leaf in jax.tree.leaves(mapped(both, q, scores)):
        assert np.isfinite(leaf).all()


def test_a_sharded_batch_and_sharded_heads_give_the_same_value_and_gradients():
    q, scores = numbers(10, 2, 4, ROWS, H), numbers(11, 2, 4, ROWS, KEYS)

    @jax.jit
    def value_and_gradients(p, q, scores):
        return jax.value_and_grad(lambda *x: jnp.sum(cope_bias(*x, causal()) ** 2), (0, 1, 2))(p, q, scores)

    alone = value_and_gradients(embedding(), q, scores)
    spec = jax.P("data", "model", None, None)
    with jax.set_mesh(make_mesh(data=2, model=2)):
        p = CopeBias(embedding=jax.reshard(embedding().embedding, jax.P(None, None)))
        spread = value_and_gradients(p, jax.reshard(q, spec), jax.reshard(scores, spec))
    assert spread[1][1].sharding.spec == spec
    for found, expected in zip(jax.tree.leaves(spread), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_queries_give_a_float32_bias():
    """Positions are counted in float32: in bfloat16 a count would stop at 256."""
    p = CopeBias(embedding=jnp.arange(400, dtype=jnp.float32)[None, :])
    found = cope_bias(p, jnp.ones((1, 1, 1, 1), jnp.bfloat16), jnp.full((1, 1, 1, 300), OPEN), jnp.ones((1, 300), bool))
    assert found.dtype == jnp.float32
    assert found[0, 0, 0, 0] == pytest.approx(300, rel=1e-2)


def test_fewer_than_two_positions_are_an_error():
    with pytest.raises(ValueError, match="at least 2, got 1"):
        init_cope(H, 1)
