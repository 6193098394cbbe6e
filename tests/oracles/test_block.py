"""What a block does to queries, keys and scores against torch, Qwen3 and Qwen3-Next; output and all gradients."""

from dataclasses import replace

import jax.numpy as jnp
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from transformers import Qwen3Config, Qwen3NextConfig
from transformers.models.qwen3 import modeling_qwen3 as qwen3
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from leadline.model.attention.gate import GateConfig
from tests.oracles import half_block
from tests.oracles.half_block import CONFIG, assert_halves_equal, unoptimised  # noqa: F401

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]

NORMED = replace(CONFIG, qk_norm=True)
SCALABLE = replace(CONFIG, scalable_softmax=True)
POLAR = replace(CONFIG, polar=True)
KV_BIAS = replace(CONFIG, key_bias=True, value_bias=True)


def test_norms_of_queries_and_keys_are_taken_before_they_are_rotated():
    assert_halves_equal([NORMED])


def test_scores_times_the_logarithm_of_the_tokens_and_a_temperature():
    """Nakanishi 2025, with the scores multiplied as printed; the gradient of the temperature too."""
    assert_halves_equal([SCALABLE, CONFIG], scale=jnp.float32(0.6))


def test_the_factors_of_scores_are_not_those_of_magnitudes():
    """PoPE's softplus is not linear: what multiplies its scores comes after it."""
    assert_halves_equal([POLAR, replace(POLAR, scalable_softmax=True)], scale=jnp.float32(0.6))


def test_a_key_bias_is_capped_as_every_key():
    rows = [replace(KV_BIAS, soft_cap=True), replace(KV_BIAS, value_bias=False, soft_cap=True)]
    assert_halves_equal(rows, sink_logit=jnp.zeros(half_block.HEADS))


def test_the_order_of_all_of_them():
    cfg = replace(
        NORMED, scalable_softmax=True, soft_cap=True, key_bias=True, value_bias=True, gate=GateConfig("query", "channel")
    )
    assert_halves_equal([cfg], sink_logit=jnp.zeros(half_block.HEADS), scale=jnp.float32(0.6))


SIZES = {
    "hidden_size": half_block.WIDTH,
    "num_attention_heads": half_block.HEADS,
    "num_key_value_heads": half_block.GROUPS,
    "head_dim": half_block.SIZE,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": half_block.BASE, "partial_rotary_factor": 1.0},
    "attn_implementation": "eager",
}


def of_module(attention, rotary, named, changes):
    """x + attention(norm(x)) with the module's weights made of ours, [out, in], and a temperature."""
    attention.scaling = half_block.SIZE**-0.5 * named["scale"]
    weights = {f"{name[0]}_proj.weight": named[name].flatten(1).T for name in ("query", "key", "value")}
    weights |= {"o_proj.weight": named["output"].flatten(0, 1).T}
    weights |= {"q_norm.weight": named["query_norm"], "k_norm.weight": named["key_norm"]}
    x = named["x"]
    h = F.rms_norm(x, x.shape[-1:], named["attention_norm"], eps=1e-6)
    positions = rotary(h, torch.arange(half_block.TOKENS)[None])
    hidden = torch.full((half_block.TOKENS,) * 2, -torch.inf).triu(1)
    return x + torch.func.functional_call(attention, weights | changes, (h, positions, hidden))[0]


def test_attention_of_qwen3():
    config = Qwen3Config(**SIZES)
    attention, rotary = qwen3.Qwen3Attention(config, 0), qwen3.Qwen3RotaryEmbedding(config)
    assert_halves_equal([NORMED], against=lambda named, _: of_module(attention, rotary, named, {}))


def test_attention_of_qwen3_next():
    """A gate a channel on the output, in one matrix with the queries head by head; norms keep their distance from 1."""
    config = Qwen3NextConfig(**SIZES)
    attention, rotary = qwen3_next.Qwen3NextAttention(config, 3), qwen3_next.Qwen3NextRotaryEmbedding(config)

    def against(named, _):
        queries_and_gates = torch.cat([named["query"], named["gate"]], dim=-1).flatten(1).T
        norms = {f"{name[0]}_norm.weight": named[name] - 1 for name in ("query_norm", "key_norm")}
        return of_module(attention, rotary, named, {"q_proj.weight": queries_and_gates, **norms})

    cfg = replace(NORMED, gate=GateConfig("output", "channel"))
    assert_halves_equal([cfg], against=against, unknown=["limits"])
