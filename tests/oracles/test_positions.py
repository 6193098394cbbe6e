"""Rotations and ALiBi slopes against transformers."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_interleaved
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_halves
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import rotate, rotation_of
from tests.model.naive import random_heads
from tests.oracles.compare import assert_value_and_gradients

pytestmark = pytest.mark.oracle


def config(size: int, base: float, **parameters: object) -> LlamaConfig:
    rope = {"rope_type": "default", "rope_theta": base, **parameters}
    return LlamaConfig(hidden_size=2 * size, num_attention_heads=2, head_dim=size, rope_parameters=rope)


def turn(interleaved: bool, positions: np.ndarray, table: np.ndarray, factor: float):
    def ours(x):
        return rotate(x, rotation_of(jnp.asarray(positions), table, factor), interleaved=interleaved)

    return ours


@pytest.mark.parametrize("factor", [1.0, 1.21])
def test_half_split_rotation_is_that_of_llama(factor):
    positions = np.array([0, 1, 2, 3, 50, 1000])
    table = inverse_frequencies(16, 1e4)
    x, _, _ = random_heads(0, 2, 6, 3, 1, 16)
    embedding = LlamaRotaryEmbedding(config(16, 1e4))
    embedding.attention_scaling = factor

    def theirs(x):
        cos, sin = embedding(x, torch.from_numpy(positions)[None])
        return rotate_halves(x, x, cos, sin, unsqueeze_dim=2)[0]

    assert_value_and_gradients(turn(False, positions, table, factor), theirs, (x,), tolerance=1e-4)


def test_interleaved_rotation_is_that_of_gpt_j():
    positions = np.array([0, 1, 2, 3, 50, 1000])
    table = inverse_frequencies(16, 1e4)
    x, _, _ = random_heads(1, 2, 6, 3, 1, 16)
    angles = torch.from_numpy(positions[:, None] * table)[None]

    def theirs(x):
        return rotate_interleaved(x, angles.sin(), angles.cos())

    assert_value_and_gradients(turn(True, positions, table, 1.0), theirs, (x,), tolerance=1e-4)


@pytest.mark.parametrize("heads", [*range(1, 34), 40, 48, 64, 71, 96, 112, 128])
def test_alibi_slopes_are_those_of_bloom(heads):
    bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.int64), heads, torch.float64)
    np.testing.assert_allclose(alibi_slopes(heads), bias[:, 0, 1].numpy(), rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 40, 64])
def test_alibi_slopes_are_those_of_mpt_up_to_the_order_of_heads(heads):
    """For numbers of heads that are no power of two, MPT begins with every second slope of the next power."""
    bias = build_mpt_alibi_tensor(heads, 2)
    theirs = np.sort((bias[:, 0, 1] - bias[:, 0, 0]).numpy())
    ours = np.sort(alibi_slopes(heads))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
