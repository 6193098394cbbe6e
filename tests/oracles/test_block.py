"""Blocks against torch's encoder layer (pre, post), Gemma 2 (sandwich), Qwen3 and Qwen3-Next; output and gradients."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from transformers import Gemma2Config, Qwen3Config, Qwen3NextConfig
from transformers.models.gemma2.modeling_gemma2 import Gemma2DecoderLayer
from transformers.models.qwen3 import modeling_qwen3 as qwen3
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from leadline.model.attention.gate import GateConfig
from leadline.model.block import Block, BlockConfig, init_block
from leadline.model.layer import apply_block
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables
from tests.model.naive import numbers
from tests.model.weights import drawn
from tests.oracles.compare import assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
WIDTH, HEADS, GROUPS, SIZE, HIDDEN, TOKENS, BASE = 16, 4, 2, 4, 24, 6, 100.0
HIDDEN_KEYS = torch.full((TOKENS, TOKENS), -torch.inf, dtype=torch.float64).triu(1)
SIZES = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "head_dim": SIZE, "attn_implementation": "eager"}
ROPE = {"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": 1.0}


def weights(cfg: BlockConfig) -> Block:
    """Random ones, norms too."""
    rng = np.random.default_rng(3)

    def uneven(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        random = jnp.asarray(rng.standard_normal(leaf.shape), jnp.float32)
        return leaf + 0.3 * random if path[-1].name in ("scale", "bias") else leaf

    return jax.tree_util.tree_map_with_path(uneven, drawn(lambda: init_block(jax.random.key(0), cfg), 2))


def compare(cfg: BlockConfig, p: Block, theirs: Any, changed: Callable[..., Block], given: Any, *, rope: bool) -> None:
    """Output, and gradients in x and in some weights, with which `changed` makes a block."""
    frequencies = inverse_frequencies(SIZE, BASE) if rope else None
    table = jax.tree.map(lambda leaf: leaf[0], position_tables(1, HEADS, SIZE, inverse_frequencies=frequencies))

    def ours(x: jax.Array, *values: jax.Array) -> jax.Array:
        return apply_block(changed(p, *values), x, table, cfg)[0]

    assert_value_and_gradients(ours, theirs, (numbers(4, 2, TOKENS, WIDTH), *given))


def with_up(p: Block, up: jax.Array) -> Block:
    """The first matrix of the feed-forward, which the norms on both sides of it scale."""
    return replace(p, feedforward=replace(p.feedforward, up=up))


def assign(*pairs: tuple[torch.nn.Parameter, jax.Array]) -> None:
    for parameter, value in pairs:
        assert parameter.shape == value.shape
        parameter.data = to_torch(value)


def matrix(w: jax.Array) -> jax.Array:
    """[D, N, H] as torch keeps it, [out, in]."""
    return w.reshape(WIDTH, -1).T


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_pre_and_post(placement):
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, activation="relu", layer_norm=True, placement=placement)
    p = weights(cfg)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=placement == "pre")
    for parameter in layer.parameters():
        parameter.data.zero_()  # ours has no biases outside norms
    assign(
        (layer.self_attn.in_proj_weight, jnp.concatenate([matrix(w) for w in (p.query, p.key, p.value)])),
        (layer.self_attn.out_proj.weight, p.output.reshape(-1, WIDTH).T),
        (layer.linear2.weight, p.feedforward.down.T),
        *[(other.weight, own.scale) for own, other in ((p.attention_norm, layer.norm1), (p.feedforward_norm, layer.norm2))],
        *[(other.bias, own.bias) for own, other in ((p.attention_norm, layer.norm1), (p.feedforward_norm, layer.norm2))],
    )
    layer.double()

    def theirs(x, up):
        return torch.func.functional_call(layer, {"linear1.weight": up.T}, (x, HIDDEN_KEYS))

    compare(cfg, p, theirs, with_up, [p.feedforward.up], rope=False)


def test_sandwich():
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, placement="sandwich")
    p = weights(cfg)
    gemma = {
        "intermediate_size": HIDDEN,
        "hidden_activation": "silu",
        "attn_logit_softcapping": None,
        "query_pre_attn_scalar": SIZE,
    }
    layer = Gemma2DecoderLayer(Gemma2Config(num_key_value_heads=HEADS, **SIZES, **gemma), 0)
    attention, norms = layer.self_attn, (p.attention_norm, p.attention_end, p.feedforward_norm, p.feedforward_end)
    names = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    assign(
        *[(getattr(attention, f"{name[0]}_proj").weight, matrix(getattr(p, name))) for name in ("query", "key", "value")],
        (attention.o_proj.weight, p.output.reshape(-1, WIDTH).T),
        (layer.mlp.gate_proj.weight, p.feedforward.gate.T),
        (layer.mlp.down_proj.weight, p.feedforward.down.T),
        *[(getattr(layer, name).weight, norm.scale - 1) for name, norm in zip(names, norms, strict=True)],  # times 1 + w
    )
    layer.double()

    def theirs(x, up):
        nope = (torch.ones(1, TOKENS, SIZE, dtype=torch.float64), torch.zeros(1, TOKENS, SIZE, dtype=torch.float64))
        given = {"position_embeddings": nope, "attention_mask": HIDDEN_KEYS[None, None]}
        found = torch.func.functional_call(layer, {"mlp.up_proj.weight": up.T}, (x,), given)
        return found[0] if isinstance(found, tuple) else found

    compare(cfg, p, theirs, with_up, [p.feedforward.up], rope=False)


NAMES = ("query", "key", "value", "output", "query_norm", "key_norm")


def silent(p: Block, *values: jax.Array) -> Block:
    """With these weights, and the last matrix of the feed-forward 0: x + attention(norm(x)) is left."""
    *own, query_norm, key_norm = values[:6]
    norms = {"query_norm": replace(p.query_norm, scale=query_norm), "key_norm": replace(p.key_norm, scale=key_norm)}
    feedforward = replace(p.feedforward, down=jnp.zeros_like(p.feedforward.down))
    block = replace(p, **dict(zip(NAMES, own, strict=False)), **norms, feedforward=feedforward)
    return replace(block, gate=values[6]) if len(values) > 6 else block


@pytest.mark.parametrize("model", ["Qwen3", "Qwen3-Next"])
def test_attention_of_qwen(model):
    """Qwen3-Next has a gate a channel on the output, in one matrix with the queries head by head; norms are kept less 1."""
    gated = model == "Qwen3-Next"
    gate = GateConfig("output", "channel") if gated else None
    cfg = BlockConfig(WIDTH, HEADS, GROUPS, SIZE, HIDDEN, qk_norm=True, gate=gate)
    sizes = {"num_key_value_heads": GROUPS, "rms_norm_eps": 1e-6, "rope_parameters": ROPE, **SIZES}
    if gated:
        config = Qwen3NextConfig(**sizes)
        attention, rotary = qwen3_next.Qwen3NextAttention(config, 3), qwen3_next.Qwen3NextRotaryEmbedding(config)
    else:
        config = Qwen3Config(**sizes)
        attention, rotary = qwen3.Qwen3Attention(config, 0), qwen3.Qwen3RotaryEmbedding(config)
    p, less = weights(cfg), 1.0 if gated else 0.0

    def theirs(x, query, key, value, output, query_norm, key_norm, *gate):
        q = torch.cat([query, *gate], dim=-1)
        changes = {"q_proj.weight": q.flatten(1).T, "k_proj.weight": key.flatten(1).T, "v_proj.weight": value.flatten(1).T}
        changes |= {
            "o_proj.weight": output.flatten(0, 1).T,
            "q_norm.weight": query_norm - less,
            "k_norm.weight": key_norm - less,
        }
        h = F.rms_norm(x, x.shape[-1:], to_torch(p.attention_norm.scale), eps=1e-6)
        positions = rotary(h, torch.arange(TOKENS)[None])
        return x + torch.func.functional_call(attention, changes, (h, positions, HIDDEN_KEYS))[0]

    given = [p.query, p.key, p.value, p.output, p.query_norm.scale, p.key_norm.scale, *([p.gate] if gated else [])]
    compare(cfg, p, theirs, silent, given, rope=True)
