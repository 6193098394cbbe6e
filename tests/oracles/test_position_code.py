"""The position code of published models: scores of rotated queries and keys, value and gradient, on random configurations.

Tables, angles and rotation are those of leadline; on the other side runs the code of the model, in float32 where it says so.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPTNeoXConfig, Llama4TextConfig, Qwen2VLTextConfig, Qwen3VLTextConfig
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.llama import modeling_llama as llama
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.pixtral.configuration_pixtral import PixtralVisionConfig
from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

from leadline.model.positions.frequencies import inverse_frequencies, partial
from leadline.model.positions.rotation import rotate, rotation_of
from leadline.model.positions.sections import axial, interleaved_sections, sectioned
from tests.model.naive import random_heads
from tests.oracles.compare import assert_value_and_gradients

pytestmark = pytest.mark.oracle

TOKENS, HEADS = 7, 2
BASES = st.floats(50, 1e7)
SIZES = st.sampled_from([8, 16, 32])  # few, as every one is compiled
POSITIONS = st.lists(st.integers(0, 1000), min_size=TOKENS, max_size=TOKENS)
GRIDS = st.lists(st.lists(st.integers(0, 300), min_size=3, max_size=3), min_size=TOKENS, max_size=TOKENS)
SEEDS = st.integers(0, 10)
# Their angles are float32 products: at position 1000, off by 1e-4.
TOLERANCE = 2e-4


def scores_of(
    table, positions, *, interleaved: bool = False, factor: float | np.ndarray = 1.0, order: Sequence[int] | None = None
):
    """q, k [B, T, N, H] → [B, N, T, S], by a table [coordinates, d/2] or [d/2] and positions [T, coordinates] or [T]."""
    tables = np.atleast_2d(table)
    factors = jnp.asarray(np.broadcast_to(factor, (1, tables.shape[-1])), jnp.float32)
    rotation = rotation_of(jnp.asarray(np.reshape(positions, (-1, len(tables))), jnp.int32), tables, factors)

    def turned(x: jax.Array) -> jax.Array:
        return rotate(x if order is None else x[..., jnp.asarray(order)], rotation, interleaved=interleaved)

    return lambda q, k: jnp.einsum("BTNH,BSNH->BNTS", turned(q), turned(k))


def compare(ours, turned, seed: int, size: int) -> None:
    """Scores of random queries and keys; `turned` rotates both together."""

    def theirs(q, k):
        return torch.einsum("btnh,bsnh->bnts", *turned(q, k))

    assert_value_and_gradients(ours, theirs, random_heads(seed, 2, TOKENS, HEADS, HEADS, size)[:2], tolerance=TOLERANCE)


def by(apply, embedding, positions: torch.Tensor):
    """Queries and keys rotated by the code of a model, from its cosines and sines."""
    return lambda q, k: apply(q, k, *embedding(q, positions), unsqueeze_dim=2)


def ids(positions) -> torch.Tensor:
    return torch.tensor(positions)[None]


def channels_of_half_split(size: int, rotary: int) -> list[int]:
    """Where the channels of a partly rotated head lie in GPT-NeoX, which pairs i with i + rotary/2, not with i + size/2."""
    half, still = rotary // 2, (size - rotary) // 2
    first, second = range(half), range(half, rotary)
    return [*first, *range(rotary, rotary + still), *second, *range(rotary + still, size)]


@settings(max_examples=8)
@given(SIZES, st.sampled_from([0.25, 0.5, 1.0]), BASES, POSITIONS, SEEDS, st.sampled_from([1.0, 1.25]))
def test_gpt_neox(size, share, base, positions, seed, factor):
    """Part of the pairs; an attention factor leaves the others alone."""
    rope = {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": share}
    config = GPTNeoXConfig(hidden_size=HEADS * size, num_attention_heads=HEADS, rope_parameters=rope)
    embedding = neox.GPTNeoXRotaryEmbedding(config)
    embedding.attention_scaling = factor
    table, rotated = partial(size, share, lambda rotary: inverse_frequencies(rotary, base))
    order = channels_of_half_split(size, 2 * int(rotated.sum()))
    ours = scores_of(table, positions, factor=np.where(rotated, factor, 1.0), order=order)
    compare(ours, by(neox.apply_rotary_pos_emb, embedding, ids(positions)), seed, size)


@settings(max_examples=8)
@given(SIZES, BASES, POSITIONS, SEEDS)
def test_llama_4_turns_interleaved_pairs(size, base, positions, seed):
    rope = {"rope_type": "default", "rope_theta": base}
    embedding = llama4.Llama4TextRotaryEmbedding(Llama4TextConfig(head_dim=size, rope_parameters=rope))
    ours = scores_of(inverse_frequencies(size, base), positions, interleaved=True)
    compare(ours, lambda q, k: llama4.apply_rotary_emb(q, k, embedding(q, ids(positions))), seed, size)


QWEN = {"Qwen2-VL": (qwen2.Qwen2VLRotaryEmbedding, Qwen2VLTextConfig, qwen2, sectioned, {})}
QWEN["Qwen3-VL"] = (qwen3.Qwen3VLTextRotaryEmbedding, Qwen3VLTextConfig, qwen3, interleaved_sections, {"head_dim": 16})


@pytest.mark.parametrize("model", QWEN)
@settings(max_examples=8)
@given(st.sampled_from([(4, 2, 2), (3, 3, 2), (6, 1, 1), (8, 0, 0)]), BASES, GRIDS, SEEDS)
def test_sections_of_qwen(model, sections, base, grid, seed):
    embedding, config, code, cut, sizes = QWEN[model]
    rope = {"rope_type": "default", "rope_theta": base, "mrope_section": list(sections)}
    rotary = embedding(config(hidden_size=32, num_attention_heads=2, rope_parameters=rope, **sizes))
    positions = torch.tensor(grid).T[:, None, :].expand(3, 2, TOKENS)
    ours = scores_of(cut(inverse_frequencies(16, base), sections), grid)
    compare(ours, by(code.apply_rotary_pos_emb, rotary, positions), seed, 16)


def even_rows_odd_columns(size, base):
    table = inverse_frequencies(size, base)
    return sectioned(np.concatenate([table[0::2], table[1::2]]), [size // 4, size // 4])


VISION = {
    "Qwen2-VL": (qwen2.Qwen2VLVisionRotaryEmbedding, Qwen2VLVisionConfig, "embed_dim", lambda size, base: axial(size, base, 2)),
    "Pixtral": (PixtralVisionRotaryEmbedding, PixtralVisionConfig, "hidden_size", even_rows_odd_columns),
}


@pytest.mark.parametrize("model", VISION)
@settings(max_examples=8)
@given(SIZES, BASES, GRIDS, SEEDS)
def test_rows_and_columns_of_vision_models(model, size, base, grid, seed):
    """Axial tables are those of Qwen2-VL; Pixtral has the even frequencies for rows and the odd ones for columns."""
    embedding, config, width, table = VISION[model]
    rope = {"rope_type": "axial", "rope_theta": base}
    rotary = embedding(config(**{width: 2 * size}, num_heads=2, num_attention_heads=2, head_dim=size, rope_parameters=rope))
    rows_and_columns = np.array(grid)[:, :2]

    def turned(q, k):
        cos, sin = rotary(q, torch.from_numpy(rows_and_columns))
        return llama.apply_rotary_pos_emb(q, k, cos[None], sin[None], unsqueeze_dim=2)

    compare(scores_of(table(size, base), rows_and_columns), turned, seed, size)
