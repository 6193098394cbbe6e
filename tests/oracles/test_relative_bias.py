"""Relative biases, xPos, PoPE and sinusoids against transformers, and against the papers' equations in torch, term by term."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from leadline.model.positions.absolute import sinusoidal
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.angles import angles, fixed_point
from leadline.model.positions.cope import CopeBias, cope_bias
from leadline.model.positions.fire import FireBias, fire_bias
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.kerple import KerpleBias, kerple_logarithmic, kerple_power
from leadline.model.positions.relative import by_distance
from leadline.model.positions.rotation import polar, rotate, rotation_of
from leadline.model.positions.t5 import T5Bias, t5_bias, t5_buckets
from leadline.model.positions.xpos import xpos_decay
from tests.oracles.compare import assert_value_and_gradients

pytestmark = pytest.mark.oracle

HEADS, TOKENS = 3, 7
ROWS = jnp.arange(TOKENS)


def numbers(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def causal(x: jax.Array) -> jax.Array:
    """What attention masks is zero, as in `filled`."""
    return jnp.where(jnp.tril(jnp.ones(x.shape[-2:], bool))[(None,) * (x.ndim - 2)], x, 0)


def filled(entry, *shape: int) -> torch.Tensor:
    """[*shape, T, T] of entry(i, j) of that shape for j <= i, else zeros."""
    zero = torch.zeros(shape, dtype=torch.float64)
    rows = [torch.stack([entry(i, j) if j <= i else zero for j in range(TOKENS)], dim=-1) for i in range(TOKENS)]
    return torch.stack(rows, dim=-2)


@settings(max_examples=40)
@given(st.sampled_from([2, 3, 8, 31, 32, 64]), st.integers(1, 2048))
def test_t5_buckets(buckets, beyond):
    furthest = buckets // 2 + beyond
    distance = np.arange(4200)
    theirs = T5Attention._relative_position_bucket(-torch.from_numpy(distance), False, buckets, furthest)
    np.testing.assert_array_equal(t5_buckets(jnp.asarray(distance), buckets=buckets, furthest=furthest), theirs.numpy())


@settings(max_examples=8)
@given(st.integers(2, 40), st.integers(1, 200), st.integers(1, 6), st.integers(1, 40), st.integers(0, 150))
def test_t5_bias_and_the_gradient_of_its_table(buckets, beyond, heads, rows, start):
    """The same queries as T5 with so many tokens cached."""
    furthest, keys = buckets // 2 + beyond, start + rows
    sizes = {"relative_attention_num_buckets": buckets, "relative_attention_max_distance": furthest}
    config = T5Config(num_heads=heads, d_model=8, d_kv=4, is_decoder=True, **sizes)
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    i = np.arange(start, keys)
    visible = i[:, None] >= np.arange(keys)

    def ours(table):
        bias = by_distance(t5_bias(T5Bias(table=table), keys, furthest=furthest), jnp.asarray(i))
        return jnp.where(visible[None], bias, 0)

    def theirs(table):
        del layer.relative_attention_bias.weight
        layer.relative_attention_bias.weight = table
        return layer.compute_bias(rows, keys, past_seen_tokens=start)[0] * torch.from_numpy(visible)

    assert_value_and_gradients(ours, theirs, (numbers(buckets, buckets, heads),))


@settings(max_examples=8)
@given(st.integers(1, 70), st.integers(2, 40))
def test_alibi_by_distance_is_that_of_bloom_and_mpt(heads, tokens):
    """Theirs is slope · j, which differs from -slope · (i - j) by a number a row; MPT has its heads in another order."""
    slopes = alibi_slopes(heads)
    line = jnp.asarray(-slopes[:, None] * np.arange(tokens), jnp.float32)
    bias = np.asarray(jax.jit(by_distance)(line, jnp.arange(tokens)))
    i, j = np.tril_indices(tokens)
    bloom = build_alibi_tensor(torch.ones(1, tokens, dtype=torch.int64), heads, torch.float64)[:, 0].numpy()
    np.testing.assert_allclose(bias[:, i, j], bloom[:, j] - bloom[:, i], atol=1e-4)
    mpt = build_mpt_alibi_tensor(heads, tokens)[:, 0].double().numpy()
    order, theirs = np.argsort(-slopes), np.argsort(mpt[:, 0], kind="stable")
    np.testing.assert_allclose(bias[order][:, i, j], (mpt[:, j] - mpt[:, i])[theirs], atol=1e-4)


@pytest.mark.parametrize("power", [False, True])
def test_kerple(power):
    """Against the exponent and factor that the weights stand for, with |i - j| written out."""
    kernel = kerple_power if power else kerple_logarithmic

    def ours(scale, shape):
        return causal(by_distance(kernel(KerpleBias(scale=scale, shape=shape), TOKENS), ROWS))

    def theirs(scale, shape):
        def entry(i, j):
            if power:
                return -scale.exp() * float(abs(i - j)) ** (2 * torch.sigmoid(shape))
            return -scale.exp() * torch.log(1 + shape.exp() * abs(i - j))

        return filled(entry, HEADS)

    assert_value_and_gradients(ours, theirs, (numbers(0, HEADS), numbers(1, HEADS)))


@pytest.mark.parametrize("threshold", [0.5, 3.5, 100.0])
def test_fire(threshold):
    def ours(log_c, log_threshold, *network):
        return causal(fire_bias(FireBias(log_c, log_threshold, *network), ROWS, jnp.arange(TOKENS)))

    def theirs(log_c, log_threshold, hidden, hidden_bias, output, output_bias):
        def psi(x):
            return torch.log(log_c.exp() * x + 1)

        def entry(i, j):
            x = psi(torch.tensor(float(i - j))) / psi(torch.maximum(log_threshold.exp(), torch.tensor(float(i))))
            return torch.relu(x * hidden + hidden_bias) @ output + output_bias

        return filled(entry, HEADS)

    network = numbers(0, 8), numbers(1, 8), numbers(2, 8, HEADS), numbers(3, HEADS)
    weights = jnp.log(jnp.float32(0.3)), jnp.log(jnp.float32(threshold)), *network
    assert_value_and_gradients(ours, theirs, weights, tolerance=2e-5)


@pytest.mark.parametrize("positions", [3, 12])
def test_cope(positions):
    """Few positions end the count; 12 are more than there are keys."""
    size, visible = 4, jnp.tril(jnp.ones((TOKENS, TOKENS), bool))

    def ours(e, q, scores):
        return causal(cope_bias(CopeBias(embedding=e), q, scores, visible))

    def theirs(e, q, scores):
        def entry(i, j):
            p = torch.sigmoid(scores[:, :, i, j : i + 1]).sum(-1).clamp(max=positions - 1)
            low, high = p.floor().long(), p.ceil().long()
            share = p - low
            vector = (1 - share) * e[:, low] + share * e[:, high]  # [H, B, K]
            return (q[:, :, i] * vector.movedim(0, -1)).sum(-1)

        return filled(entry, 2, HEADS)

    arguments = numbers(0, size, positions), numbers(1, 2, HEADS, TOKENS, size), numbers(2, 2, HEADS, TOKENS, TOKENS)
    assert_value_and_gradients(ours, theirs, arguments)


@settings(max_examples=8)
@given(st.sampled_from([1, 3, 16]), st.floats(0.1, 2.0), st.floats(16.0, 1024.0), st.integers(0, 3000))
def test_xpos_scores(pairs, gamma, scale_base, start):
    """As complex numbers: Re(sum_i q_i conj(k_i) zeta_i^((t-s)/scale_base) e^(i (t-s) w_i)), pairs interleaved."""
    size = 2 * pairs
    i = start + np.arange(TOKENS)
    decay = np.repeat(xpos_decay(size, gamma=gamma, scale_base=scale_base), 2)
    frequencies = fixed_point(inverse_frequencies(size, 1e4)[None])

    def scaled(x, sign):
        turned = rotate(x, rotation_of(jnp.asarray(i), frequencies), interleaved=True)
        # Counted from `start` on both sides: a common factor that leaves the scores.
        factor = np.exp(sign * decay * (i - start)[:, None])
        return turned * jnp.asarray(factor, jnp.float32)[None, :, None]

    def ours(q, k):
        return causal(jnp.einsum("bqnh,bsnh->bnqs", scaled(q, 1), scaled(k, -1)))

    def theirs(q, k):
        q, k = (torch.view_as_complex(x.reshape(*x.shape[:-1], pairs, 2)) for x in (q, k))
        channel = torch.arange(pairs, dtype=torch.float64)
        zeta = (channel / pairs + gamma) / (1 + gamma)
        turn = 10000.0 ** (-channel / pairs)

        def entry(t, s):
            return (q[:, t] * k[:, s].conj() * zeta ** ((t - s) / scale_base) * torch.exp(1j * (t - s) * turn)).real.sum(-1)

        return filled(entry, 2, HEADS)

    assert_value_and_gradients(ours, theirs, (numbers(0, 2, TOKENS, HEADS, size), numbers(1, 2, TOKENS, HEADS, size)))


@settings(max_examples=8)
@given(st.sampled_from([1, 5, 16]), st.floats(10.0, 1e6), st.integers(0, 3000))
def test_pope_scores(size, base, start):
    """sum_c softplus(q_c) softplus(k_c) cos((t - s) theta_c - delta_c), with some deltas beyond their bounds."""
    i = start + np.arange(TOKENS)
    turned = angles(jnp.asarray(i)[:, None], fixed_point(base ** -(np.arange(size) / size)[None]))

    def ours(q, k, phase):
        return causal(jnp.einsum("bqnh,bsnh->bnqs", polar(q, turned, None), polar(k, turned, phase)))

    def theirs(q, k, phase):
        q, k = torch.nn.functional.softplus(q), torch.nn.functional.softplus(k)
        theta = base ** (-torch.arange(size, dtype=torch.float64) / size)
        # torch.clamp itself has changed its mind on the gradient at the bounds between 2.13 and 2.15.
        within = (phase >= -2 * math.pi) & (phase <= 0)
        delta = torch.where(within, phase, phase.detach().clamp(-2 * math.pi, 0))

        def entry(t, s):
            return (q[:, t] * k[:, s] * torch.cos((t - s) * theta - delta)).sum(-1)

        return filled(entry, 2, HEADS)

    phase = jnp.asarray(np.random.default_rng(2).uniform(-8, 2, (HEADS, size)), jnp.float32).at[0].set(0.0)
    arguments = numbers(0, 2, TOKENS, HEADS, size), numbers(1, 2, TOKENS, HEADS, size), phase
    assert_value_and_gradients(ours, theirs, arguments, tolerance=2e-5)


@settings(max_examples=20)
@given(st.sampled_from([1, 7, 64]), st.lists(st.integers(0, 2**20), min_size=9, max_size=9))
def test_sinusoidal_positions(pairs, positions):
    """Against the equation in float64, up to a million tokens."""
    t, width = torch.tensor(positions, dtype=torch.float64), 2 * pairs
    expected = torch.zeros(len(positions), width, dtype=torch.float64)
    for i in range(pairs):
        expected[:, 2 * i] = torch.sin(t / 10000.0 ** (2 * i / width))
        expected[:, 2 * i + 1] = torch.cos(t / 10000.0 ** (2 * i / width))
    np.testing.assert_allclose(sinusoidal(jnp.asarray(positions), width), expected.numpy(), atol=2e-6)
