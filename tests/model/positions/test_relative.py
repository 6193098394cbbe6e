"""Biases inside attention, in blocks and one query at a time, and a bias by distance as rows of a matrix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.attention import attend, attention
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores
from leadline.model.linear import draw
from leadline.model.positions.cope import Cope, cope_bias
from leadline.model.positions.fire import Fire, fire_bias
from leadline.model.positions.kerple import Kerple, kerple_logarithmic, kerple_power
from leadline.model.positions.relative import PositionBias, by_distance
from leadline.model.positions.t5 import T5, t5_bias
from tests.model.naive import random_heads, tiling
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh")

HEADS, GROUPS, SIZE = 4, 2, 8
ENCODINGS = pytest.mark.parametrize("encoding", [T5(8, 50), Kerple("logarithmic"), Kerple("power"), Fire(4), Cope(16)])


def weights_of(encoding: PositionBias) -> Any:
    return drawn(lambda: draw(jax.random.key(1), encoding.init(jax.random.key(0), 16, HEADS, SIZE)), seed=2)


def dense(p: Any, encoding: PositionBias, q: jax.Array, k: jax.Array) -> np.ndarray:
    """The bias of every head, query and key at once, [B, N, T, T], indexed by distance where it is one."""
    tokens = q.shape[1]
    distance = np.maximum(np.arange(tokens)[:, None] - np.arange(tokens)[None], 0)
    match encoding:
        case T5(furthest=furthest):
            return np.asarray(t5_bias(p, tokens, furthest=furthest))[:, distance][None]
        case Kerple(form="logarithmic"):
            return np.asarray(kerple_logarithmic(p, tokens))[:, distance][None]
        case Kerple():
            return np.asarray(kerple_power(p, tokens))[:, distance][None]
        case Fire():
            return np.asarray(fire_bias(p, jnp.arange(tokens), jnp.arange(tokens)))[None]
        case Cope():
            heads = jnp.swapaxes(q * SIZE**-0.5, 1, 2)
            keys = jnp.repeat(jnp.swapaxes(k, 1, 2), HEADS // GROUPS, axis=1, total_repeat_length=HEADS)
            visible = jnp.tril(jnp.ones((tokens, tokens), bool))
            return np.asarray(cope_bias(p, heads, jnp.einsum("BNTH,BNSH->BNTS", heads, keys), visible))
    raise AssertionError(f"no dense form of {encoding}")


def expected(p: Any, encoding: PositionBias, q: jax.Array, k: jax.Array, v: jax.Array) -> np.ndarray:
    """Attention with the whole matrix of scores, float64."""
    tokens, repeat = q.shape[1], HEADS // GROUPS
    keys, values = (np.repeat(np.asarray(x, np.float64), repeat, axis=2) for x in (k, v))
    scores = np.einsum("BTNH,BSNH->BNTS", np.asarray(q, np.float64), keys) * SIZE**-0.5 + dense(p, encoding, q, k)
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    numerators = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("BNTS,BSNH->BTNH", numerators / numerators.sum(axis=-1, keepdims=True), values)


@ENCODINGS
@pytest.mark.parametrize("tokens", [5, 39])
def test_blocks_get_the_bias_of_their_own_rows(encoding: PositionBias, tokens: int) -> None:
    """39 tokens are two chunks of several blocks, the last of which has surplus rows."""
    p = weights_of(encoding)
    q, k, v = random_heads(1, 1, tokens, HEADS, GROUPS, SIZE)
    scores = Scores(bias=encoding.score_bias(p, tokens))
    found, _ = jax.jit(lambda q, k, v: attention(q, k, v, scores=scores, tiling=tiling(None)))(q, k, v)
    np.testing.assert_allclose(found, expected(p, encoding, q, k, v), atol=2e-5)


@ENCODINGS
def test_one_query_gets_the_row_of_its_place(encoding: PositionBias) -> None:
    p = weights_of(encoding)
    q, k, v = random_heads(1, 1, 9, HEADS, GROUPS, SIZE)
    whole = expected(p, encoding, q, k, v)
    scores = Scores(bias=encoding.score_bias(p, 9))
    row = jax.jit(lambda q, i: attend(q, k, v, Mask(first_query=i), scores))
    for i in (0, 6, 8):
        found, _ = row(q[:, i : i + 1], jnp.int32(i))
        np.testing.assert_allclose(found[:, 0], whole[:, i], atol=2e-5)


def test_cope_does_not_count_padded_keys() -> None:
    """Three padded tokens in front change nothing of what follows: positions are counted from the query backwards."""
    encoding = Cope(16)
    p = weights_of(encoding)
    q, k, v = random_heads(1, 1, 9, HEADS, GROUPS, SIZE)
    padding = (jnp.arange(9) >= 3)[None]
    scores = Scores(bias=encoding.score_bias(p, 9))
    found, _ = jax.jit(lambda q: attention(q, k, v, Mask(padding=padding), scores))(q)
    np.testing.assert_allclose(found[:, 3:], expected(p, encoding, q[:, 3:], k[:, 3:], v[:, 3:]), atol=2e-5)


def looked_up(bias: jax.Array, i: np.ndarray) -> np.ndarray:
    distance = i[:, None] - np.arange(bias.shape[1])[None, :]
    return np.where(distance >= 0, np.asarray(bias)[:, np.maximum(distance, 0)], 0)


def numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).standard_normal(shape), jnp.float32)


def causal(x: jax.Array | np.ndarray, i: np.ndarray) -> jax.Array:
    return jnp.where(i[:, None] >= np.arange(x.shape[2]), x, 0)


ROWS_OF_BIAS = 3
PLACES = pytest.mark.parametrize(
    ("start", "rows", "keys"), [(0, 1, 1), (0, 1, 7), (6, 1, 7), (0, 7, 7), (3, 4, 7), (2, 3, 9), (0, 2, 9)]
)


@PLACES
def test_row_i_and_column_j_hold_the_bias_of_distance_i_minus_j(start, rows, keys):
    bias, i = numbers(ROWS_OF_BIAS, keys), np.arange(start, start + rows)
    found = causal(jax.jit(by_distance)(bias, jnp.asarray(i)), i)
    np.testing.assert_array_equal(found, causal(looked_up(bias, i), i))


@PLACES
def test_the_gradient_is_that_of_a_look_up(start, rows, keys):
    bias, i, weights = numbers(ROWS_OF_BIAS, keys), np.arange(start, start + rows), numbers(ROWS_OF_BIAS, rows, keys)

    @jax.jit
    @jax.grad
    def ours(b):
        return jnp.sum(causal(weights * by_distance(b, jnp.asarray(i)), i))

    expected = np.zeros((ROWS_OF_BIAS, keys))
    for r, j in zip(*np.nonzero(i[:, None] >= np.arange(keys)), strict=True):
        expected[:, i[r] - j] += weights[:, r, j]
    np.testing.assert_allclose(ours(bias), expected, atol=1e-5)


def test_every_number_is_finite_where_keys_are_ahead_or_rows_are_surplus():
    """Five rows of which two are behind the text: their position is -1 and what they get is not used."""
    bias, i = numbers(ROWS_OF_BIAS, 8), jnp.asarray([5, 6, 7, -1, -1])
    found, pull = jax.vjp(lambda b: by_distance(b, i), bias)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:, :3, :6], looked_up(bias, np.asarray(i[:3]))[:, :, :6])
    assert np.isfinite(pull(jnp.ones_like(found))[0]).all()


def test_one_program_serves_every_block_and_maps_over_models():
    bias = numbers(2, ROWS_OF_BIAS, 9)
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
    sharded = jax.reshard(numbers(ROWS_OF_BIAS, 9), jax.P("model", None))
    assert jax.typeof(by_distance(sharded, jnp.arange(4))).sharding.spec[0] == "model"
