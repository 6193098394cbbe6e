"""Rotations, their tables and ALiBi slopes against transformers."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_interleaved
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_halves
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from model.positions.alibi import alibi_slopes
from model.positions.phase import angles, fixed_point
from model.positions.rope import rotate
from model.positions.rope_scaling import inverse_frequencies, position_interpolation, yarn, yarn_attention_factor
from tests.model.naive import random_heads
from tests.oracles.compare import DETERMINISTIC, assert_value_and_gradients

pytestmark = pytest.mark.oracle

SIZES = st.integers(2, 64).map(lambda half: 2 * half)
BASES = st.floats(50, 1e7)
TURNS = st.sampled_from([(32, 1), (16, 2), (8, 4)])
FACTORS = st.floats(1, 64)
# Their tables are float32 powers of a float32 base: about one unit in the last place, magnified by the exponent.
ROUNDING = 5e-6


def config(size: int, base: float, **parameters: object) -> LlamaConfig:
    """A config without nested parameters: with parameters by layer type, `truncate` is read from the wrong place (5.23.0)."""
    rope = {"rope_type": "default", "rope_theta": base, **parameters}
    return LlamaConfig(hidden_size=2 * size, num_attention_heads=2, head_dim=size, rope_parameters=rope)


def turn(interleaved: bool, positions: np.ndarray, table: np.ndarray, factor: float):
    def ours(x):
        theta = angles(jnp.asarray(positions)[:, None], fixed_point(table[None]))
        return rotate(x, theta, factor=jnp.float32(factor), interleaved=interleaved)

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


@settings(max_examples=25, **DETERMINISTIC)
@given(SIZES, BASES, FACTORS)
def test_default_and_linear_tables(size, base, factor):
    expected, _ = LlamaRotaryEmbedding.compute_default_rope_parameters(config(size, base))
    np.testing.assert_allclose(inverse_frequencies(size, base), expected.numpy(), rtol=ROUNDING)
    linear = config(size, base, rope_type="linear", factor=factor)
    expected, scaling = ROPE_INIT_FUNCTIONS["linear"](linear, None)
    np.testing.assert_allclose(position_interpolation(size, base, factor), expected.numpy(), rtol=ROUNDING)
    assert scaling == 1


@settings(max_examples=40, **DETERMINISTIC)
@given(SIZES, BASES, FACTORS, st.sampled_from([128, 1000, 4096, 2**15]), st.booleans(), TURNS)
def test_yarn_tables_and_attention_factor(size, base, factor, length, truncate, turns):
    fast, slow = turns
    parameters = {"factor": factor, "original_max_position_embeddings": length, "truncate": truncate}
    theirs = config(size, base, rope_type="yarn", beta_fast=fast, beta_slow=slow, **parameters)
    expected, scaling = ROPE_INIT_FUNCTIONS["yarn"](theirs, None)
    table = yarn(size, base, factor, length, beta_fast=float(fast), beta_slow=float(slow), truncate=truncate)
    plain = inverse_frequencies(size, base)
    # Where their ramp nearly vanishes or is nearly one, float32 leaves an absolute error of the ramp, hence the share of w_i.
    np.testing.assert_allclose(table, expected.numpy(), rtol=ROUNDING, atol=ROUNDING * plain.max() * 1e-2)
    np.testing.assert_allclose(table / plain, expected.double().numpy() / plain, atol=1e-5)
    assert scaling == pytest.approx(yarn_attention_factor(factor))


def test_truncation_matters_in_what_is_compared():
    tables = [yarn(64, 150_000.0, 32.0, 4096, truncate=truncate) for truncate in (True, False)]
    assert np.abs(tables[0] / tables[1] - 1).max() > 0.05


def test_a_ramp_that_would_run_backwards_is_a_step():
    """The one deliberate difference: a base so small that even the slowest pair turns more than beta_fast times.

    Nothing is to be interpolated then. The published formula clips its ends into the wrong order and interpolates everything.
    """
    base, length = 2.0, 2**17
    theirs = config(16, base, rope_type="yarn", factor=4.0, original_max_position_embeddings=length)
    expected, _ = ROPE_INIT_FUNCTIONS["yarn"](theirs, None)
    np.testing.assert_allclose(expected.numpy(), inverse_frequencies(16, base) / 4, rtol=1e-5)
    np.testing.assert_allclose(yarn(16, base, 4.0, length), inverse_frequencies(16, base))


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
