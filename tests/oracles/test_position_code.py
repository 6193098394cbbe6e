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
from transformers.models.llama4.configuration_llama4 import Llama4VisionConfig
from transformers.models.pixtral.configuration_pixtral import PixtralVisionConfig
from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

from leadline.model.context import grid_positions
from leadline.model.positions.angles import angles, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies, partial
from leadline.model.positions.rotation import query_scale, rotate, rotation_of
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


@pytest.mark.parametrize("layer", [0, 3])
def test_llama_4_has_a_temperature_where_it_has_no_positions(layer):
    """Every fourth layer has the table of zeros and scaled queries; the probabilities of all of a layer's heads."""
    size, strength, span = 8, 0.5, 3
    rope = {"rope_type": "default", "rope_theta": 100.0}
    config = Llama4TextConfig(
        hidden_size=HEADS * size,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=size,
        num_hidden_layers=4,
        attn_scale=strength,
        floor_scale=span,
        attn_temperature_tuning=True,
        use_qk_norm=False,
        rope_parameters=rope,
        attn_implementation="eager",
    )
    attention = llama4.Llama4TextAttention(config, layer).double()
    phases = llama4.Llama4TextRotaryEmbedding(config)(torch.zeros(1), torch.arange(TOKENS)[None])
    weights = [jnp.asarray(module.weight.detach().numpy(), jnp.float32) * 20 for module in (attention.q_proj, attention.k_proj)]
    with torch.no_grad():
        attention.q_proj.weight *= 20
        attention.k_proj.weight *= 20

    def theirs(x):
        return attention(x, phases, None)[1]

    def ours(x):
        q, k = (jnp.einsum("BTD,ED->BTE", x, w).reshape(*x.shape[:2], HEADS, size) for w in weights)
        positions = jnp.arange(TOKENS)
        table = inverse_frequencies(size, 100.0) if layer == 0 else np.zeros(size // 2)
        scale = query_scale(positions, jnp.float32(0.0 if layer == 0 else strength), jnp.float32(span))
        scores = scores_of(table, np.arange(TOKENS), interleaved=True)(q * scale[None, :, None, None], k)
        return jax.nn.softmax(scores / np.float32(np.sqrt(size)), axis=-1)

    assert [bool(flag) for flag in config.no_rope_layers] == [True, True, True, False]
    x = jnp.asarray(np.random.default_rng(3).standard_normal((2, TOKENS, HEADS * size)), jnp.float32)
    assert_value_and_gradients(ours, theirs, (x,), tolerance=TOLERANCE)


QWEN = {
    "Qwen2-VL": (qwen2.Qwen2VLRotaryEmbedding, Qwen2VLTextConfig, qwen2.apply_rotary_pos_emb, sectioned, {}),
    "Qwen3-VL": (
        qwen3.Qwen3VLTextRotaryEmbedding,
        Qwen3VLTextConfig,
        qwen3.apply_rotary_pos_emb,
        interleaved_sections,
        {"head_dim": 16},
    ),
}


@pytest.mark.parametrize("model", QWEN)
@settings(max_examples=8)
@given(st.sampled_from([(4, 2, 2), (3, 3, 2), (6, 1, 1), (8, 0, 0)]), BASES, GRIDS, SEEDS)
def test_sections_of_qwen(model, sections, base, grid, seed):
    embedding, config, apply, cut, sizes = QWEN[model]
    rope = {"rope_type": "default", "rope_theta": base, "mrope_section": list(sections)}
    made = embedding(config(hidden_size=32, num_attention_heads=2, rope_parameters=rope, **sizes))
    positions = torch.tensor(grid).T[:, None, :].expand(3, 2, TOKENS)
    compare(scores_of(cut(inverse_frequencies(16, base), sections), grid), by(apply, made, positions), seed, 16)


def even_rows_odd_columns(size, base):
    table = inverse_frequencies(size, base)
    return sectioned(np.concatenate([table[0::2], table[1::2]]), [size // 4, size // 4])


VISION = {
    "Qwen2-VL": (
        qwen2.Qwen2VLVisionRotaryEmbedding,
        lambda size, **rope: Qwen2VLVisionConfig(embed_dim=2 * size, num_heads=2, **rope),
        lambda size, base: axial(size, base, 2),
    ),
    "Pixtral": (
        PixtralVisionRotaryEmbedding,
        lambda size, **rope: PixtralVisionConfig(hidden_size=2 * size, num_attention_heads=2, head_dim=size, **rope),
        even_rows_odd_columns,
    ),
}


@pytest.mark.parametrize("model", VISION)
@settings(max_examples=8)
@given(SIZES, BASES, GRIDS, SEEDS)
def test_rows_and_columns_of_vision_models(model, size, base, grid, seed):
    """Axial tables are those of Qwen2-VL; Pixtral has the even frequencies for rows and the odd ones for columns."""
    embedding, config, table = VISION[model]
    made = embedding(config(size, rope_parameters={"rope_type": "axial", "rope_theta": base}))
    rows_and_columns = np.array(grid)[:, :2]

    def turned(q, k):
        cos, sin = made(q, torch.from_numpy(rows_and_columns))
        return llama.apply_rotary_pos_emb(q, k, cos[None], sin[None], unsqueeze_dim=2)

    compare(scores_of(table(size, base), rows_and_columns), turned, seed, size)


@pytest.mark.parametrize(("size", "side", "base"), [(16, 3, 100.0), (32, 4, 1e4)])
def test_axial_rotation_is_that_of_the_vision_model_of_llama_4(size, side, base):
    """x before y, counted from one, for interleaved pairs; its last token is the class, at angle zero."""
    rope = {"rope_type": "default", "rope_theta": base}
    config = Llama4VisionConfig(
        hidden_size=2 * size, num_attention_heads=2, image_size=side * 4, patch_size=4, rope_parameters=rope
    )
    phases = llama4.Llama4VisionRotaryEmbedding(config)(torch.zeros(1))[:-1, 0]
    y_and_x = grid_positions(jnp.arange(side * side), (side,))
    found = angles(jnp.asarray(y_and_x[:, ::-1] + 1), fixed_point(axial(size, base, 2)))
    np.testing.assert_allclose(np.exp(1j * np.asarray(found)), phases.numpy(), atol=1e-5)
