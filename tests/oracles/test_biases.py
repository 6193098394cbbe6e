"""Biases of T5, and of ALiBi in Bloom and MPT, against transformers."""

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

from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.relative import by_distance
from leadline.model.positions.t5 import T5Bias, t5_bias, t5_buckets
from tests.model.naive import numbers
from tests.oracles.compare import assert_value_and_gradients

pytestmark = pytest.mark.oracle


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


@settings(max_examples=20)
@given(st.integers(1, 130), st.integers(2, 40))
def test_alibi_by_distance_is_that_of_bloom_and_mpt(heads, tokens):
    """Theirs is slope · j, which differs from -slope · (i - j) by a number a row."""
    i, j = np.tril_indices(tokens)

    def ours(exponent: float) -> np.ndarray:
        line = jnp.asarray(-alibi_slopes(heads, exponent)[:, None] * np.arange(tokens), jnp.float32)
        return np.asarray(jax.jit(by_distance)(line, jnp.arange(tokens)))[:, i, j]

    bloom = build_alibi_tensor(torch.ones(1, tokens, dtype=torch.int64), heads, torch.float64)[:, 0].numpy()
    np.testing.assert_allclose(ours(8.0), bloom[:, j] - bloom[:, i], atol=1e-4)
    for exponent in (8, 16):
        mpt = build_mpt_alibi_tensor(heads, tokens, exponent)[:, 0].double().numpy()
        np.testing.assert_allclose(ours(float(exponent)), mpt[:, j] - mpt[:, i], atol=1e-4)
