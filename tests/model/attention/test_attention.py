"""Attention in blocks against whole matrices in float64, and its invariants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import entr

from leadline.model.attention.attention import attend as attend_rows
from leadline.model.attention.attention import attention
from leadline.model.attention.mask import Tiling
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import arguments, naive_attention, random_heads, tiling

pytestmark = pytest.mark.usefixtures("mesh")
attend = jax.jit(attention, static_argnames="tiling")

# Texts are cut into tiles from here on; of 1200 tokens the last tile is not full either.
LONG = Tiling().unrolled + 1


def assert_equal_to_naive(q, k, v, atol=1e-5, **changes):
    """Output and statistics; what padded queries give is no statistic."""
    values = arguments(**changes)
    out, found = attend(q, k, v, **values)
    expected = naive_attention(q, k, v, **values)
    padding = changes.get("padding")
    real = np.ones(q.shape[:2]) if padding is None else np.asarray(padding, float)
    real = real[:, None, :]
    np.testing.assert_allclose(out, expected.output, atol=atol)
    np.testing.assert_allclose(found.first, expected.probabilities[..., 0] * real, atol=atol)
    np.testing.assert_allclose(found.sink, expected.sink * real, atol=atol)
    entropy = entr(expected.probabilities).sum(axis=-1) + entr(expected.sink)
    np.testing.assert_allclose(found.entropy, entropy * real, atol=atol * 10)
    received = (expected.probabilities * real[..., None]).sum(axis=2)
    np.testing.assert_allclose(found.received, received, atol=atol * 10, rtol=1e-5)


@pytest.mark.parametrize(
    ("groups", "tokens"), [*((2, tokens) for tokens in (1, 2, 127, 128, 129, 300)), (1, 2), (1, 300), (4, 2), (4, 300)]
)
def test_equals_whole_matrices(tokens, groups):
    q, k, v = random_heads(tokens, 2, tokens, 4, groups, 8)
    sink_logit = jnp.asarray([-jnp.inf, 0.0, 1.5, -2.0])
    assert_equal_to_naive(q, k, v, sink_logit=sink_logit)


@pytest.mark.parametrize("tokens", [LONG, 1200])
@pytest.mark.parametrize(("window", "initial_tokens"), [(1, 0), (100, 0), (129, 4), (129, 300), (2**30, 0)])
def test_equals_whole_matrices_by_tiles(tokens, window, initial_tokens):
    q, k, v = random_heads(tokens, 1, tokens, 2, 1, 4)
    slopes = jnp.asarray(alibi_slopes(2), jnp.float32)
    padding = jnp.arange(tokens)[None] < tokens - 70
    mask = {"window": window, "initial_tokens": initial_tokens, "padding": padding}
    assert_equal_to_naive(q, k, v, slopes=slopes, sink_logit=jnp.asarray([0.5, -jnp.inf]), **mask)


@pytest.mark.parametrize("tokens", [5, 140])
def test_padding_on_either_side(tokens):
    q, k, v = random_heads(3, 2, tokens, 2, 2, 4)
    padding = jnp.stack([jnp.arange(tokens) >= 3, jnp.arange(tokens) < tokens - 2])
    assert_equal_to_naive(q, k, v, padding=padding)


def test_tokens_behind_padding_change_nothing_before_it():
    q, k, v = random_heads(4, 1, 9, 2, 1, 4)
    padding = (jnp.arange(9) < 6)[None]
    out, _ = attend(q, k, v, **arguments(padding=padding))
    short, _ = attend(q[:, :6], k[:, :6], v[:, :6])
    np.testing.assert_allclose(out[:, :6], short, atol=1e-6)


@pytest.mark.parametrize(("tokens", "tile"), [(6, None), (70, None), (70, 8)], ids=["block", "looped chunks", "tiles"])
def test_queries_that_see_no_key_give_zeros_and_finite_gradients(tokens, tile):
    q, k, v = random_heads(5, 1, tokens, 2, 2, 4)
    padding = (jnp.arange(tokens) >= 4)[None]

    def loss(q, k, v, b):
        out, _ = attention(q, k, v, **arguments(sink_logit=b, padding=padding), tiling=tiling(tile))
        return jnp.sum(jnp.sin(out))

    b = jnp.full(2, -jnp.inf)
    out, found = attend(q, k, v, **arguments(padding=padding), tiling=tiling(tile))
    np.testing.assert_array_equal(out[:, :4], 0)
    np.testing.assert_array_equal(found.sink, 0)
    np.testing.assert_array_equal(found.received[..., :4], 0)
    gradients = jax.jit(jax.grad(loss, (0, 1, 2, 3)))(q, k, v, b)
    for gradient in gradients:
        assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradients[0][:, :4], 0)
    np.testing.assert_array_equal(gradients[3], 0)
    assert np.abs(gradients[1][:, 4:]).max() > 0


@pytest.mark.parametrize("logit", [-jnp.inf, 0.0, 2.0])
def test_received_and_extra_count_every_query_once(logit):
    q, k, v = random_heads(6, 2, 150, 4, 2, 8)
    _, found = attend(q, k, v, **arguments(sink_logit=jnp.full(4, logit)))
    np.testing.assert_allclose(found.received.sum(axis=-1) + found.sink.sum(axis=-1), 150, rtol=1e-5)


def test_sink_logit_of_minus_infinity_is_the_plain_softmax_and_zero_is_off_by_one():
    """With v = 1 the output is the sum of a row's probabilities: 1, and Σ e^s / (1 + Σ e^s)."""
    q, k, v = random_heads(7, 1, 20, 1, 1, 4)
    out, _ = attend(q, k, jnp.ones_like(v))
    np.testing.assert_allclose(out, 1, rtol=1e-6)
    out, _ = attend(q, k, jnp.ones_like(v), **arguments(sink_logit=jnp.zeros(1)))
    scores = np.asarray(q[0, :, 0] @ k[0, :, 0].T, np.float64) / 2
    sums = np.tril(np.exp(scores)).sum(axis=1)
    np.testing.assert_allclose(out[0, :, 0, 0], sums / (1 + sums), rtol=1e-5)


@pytest.mark.parametrize("tokens", [7, 1100])
def test_window_of_one_returns_the_values(tokens):
    q, k, v = random_heads(8, 1, tokens, 4, 2, 4)
    out, _ = attend(q, k, v, **arguments(window=1))
    np.testing.assert_allclose(out, jnp.repeat(v, 2, axis=2), atol=1e-6)


def test_alibi_is_translation_invariant():
    """Behind keys that nobody may see, the same tokens give the same outputs: only differences of positions count."""
    q, k, v = random_heads(9, 1, 12, 4, 4, 8)
    slopes = jnp.asarray(alibi_slopes(4), jnp.float32)
    here, _ = attend(q, k, v, **arguments(slopes=slopes))
    moved = [jnp.pad(x, ((0, 0), (30, 0), (0, 0), (0, 0)), constant_values=1.0) for x in (q, k, v)]
    there, _ = attend(*moved, **arguments(slopes=slopes, padding=(jnp.arange(42) >= 30)[None]))
    np.testing.assert_allclose(there[:, 30:], here, atol=1e-5)


def test_alibi_prefers_what_is_near():
    """Equal keys: probabilities fall by e^-slope a token."""
    q, k, v = jnp.zeros((1, 5, 1, 2)), jnp.ones((1, 5, 1, 2)), jnp.zeros((1, 5, 1, 2))
    _, found = attend(q, k, v, **arguments(slopes=jnp.asarray([0.7])))
    expected = np.exp(-0.7 * np.arange(5))
    np.testing.assert_allclose(found.first[0, 0], expected / np.cumsum(expected), rtol=1e-6)


def test_every_output_depends_on_all_that_it_sees_and_on_nothing_else():
    q, k, v = random_heads(11, 1, 6, 1, 1, 4)
    window = 3

    @jax.jit
    @jax.grad
    def gradient(v, row):
        return jnp.sum(attention(q, k, v, **arguments(window=window))[0] * row[None, :, None, None])

    depends = np.stack([np.abs(gradient(v, row)).max(axis=(0, 2, 3)) > 0 for row in np.eye(6, dtype=np.float32)])
    distance = np.arange(6)[:, None] - np.arange(6)[None, :]
    np.testing.assert_array_equal(depends, (distance >= 0) & (distance < window))


def test_bfloat16_stays_near_float32():
    q, k, v = random_heads(12, 1, 140, 4, 2, 16)
    exact, _ = attend(q, k, v)
    out, found = attend(*(x.astype(jnp.bfloat16) for x in (q, k, v)))
    assert out.dtype == jnp.bfloat16
    assert found.first.dtype == found.sink.dtype == found.received.dtype == jnp.float32
    np.testing.assert_allclose(out.astype(jnp.float32), exact, atol=3e-2)


def test_statistics_of_two_thousand_tokens_are_those_of_the_whole_matrix():
    q, k, v = random_heads(21, 1, 2048, 2, 1, 8)
    assert_equal_to_naive(q, k, v, sink_logit=jnp.asarray([0.5, -jnp.inf]))


def test_32k_tokens_and_all_statistics_take_less_than_25_mib_a_head():
    """What XLA plans for them, outputs included; the scores would take 4 GiB a head."""
    shapes = [jax.ShapeDtypeStruct((1, 32768, 4, 32), jnp.float32)] * 3
    plan = jax.jit(lambda q, k, v: attention(q, k, v)).lower(*shapes).compile().memory_analysis()
    assert plan is not None
    assert plan.temp_size_in_bytes + plan.output_size_in_bytes < 4 * 25 * 2**20


def test_the_defaults_need_no_mesh_and_no_jit():
    """Without a mesh, eagerly: the plain softmax on one device, and its gradient."""
    q, k, v = random_heads(13, 2, 9, 4, 2, 8)
    expected = attend(q, k, v)[0]
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        np.testing.assert_allclose(attention(q, k, v)[0], expected, atol=1e-6)
        assert np.isfinite(jax.grad(lambda q: jnp.sum(attention(q, k, v)[0]))(q)).all()


@pytest.mark.parametrize("first_query", [0, 5])
def test_rows_of_a_text_are_those_of_the_whole_text(first_query):
    q, k, v = random_heads(14, 2, 12, 4, 2, 8)
    fields = {"window": 5, "initial_tokens": 2, "slopes": jnp.asarray(alibi_slopes(4), jnp.float32), "sink_logit": 0.5}
    whole, _ = attend(q, k, v, **arguments(**fields))
    rows, _ = attend_rows(q[:, first_query:], k, v, **arguments(**fields, first_query=first_query))
    np.testing.assert_allclose(rows, whole[:, first_query:], atol=1e-6)
