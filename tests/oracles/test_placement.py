"""Where the norms stand: blocks against torch's encoder layer (pre, post) and Gemma 2's decoder layer (sandwich)."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers.models.gemma2.configuration_gemma2 import Gemma2Config
from transformers.models.gemma2.modeling_gemma2 import Gemma2DecoderLayer

from leadline.model.block import Block, BlockConfig, init_block
from leadline.model.layer import apply_block
from leadline.model.positions.tables import position_tables
from tests.model.weights import drawn
from tests.oracles.compare import assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
WIDTH, HEADS, SIZE, HIDDEN, TOKENS = 16, 4, 4, 24, 6


def weights(cfg: BlockConfig) -> Block:
    """Random ones, norms too."""
    p = drawn(lambda: init_block(jax.random.key(0), cfg, sink_logit=-jnp.inf, depth=1), 2)
    rng = np.random.default_rng(3)

    def uneven(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        random = jnp.asarray(rng.standard_normal(leaf.shape), jnp.float32)
        return leaf + 0.3 * random if path[-1].name in ("scale", "bias") else leaf

    return jax.tree_util.tree_map_with_path(uneven, p)


def value_and_gradient_of(cfg: BlockConfig, p: Block, layer: torch.nn.Module, theirs) -> None:
    """In x and in the weights of the first feed-forward matrix, which the norms on both sides of it scale."""
    x = jnp.asarray(np.random.default_rng(4).standard_normal((2, TOKENS, WIDTH)), jnp.float32)
    table = jax.tree.map(lambda leaf: leaf[0], position_tables(1, HEADS, SIZE))

    def ours(x: jax.Array, up: jax.Array) -> jax.Array:
        block = replace(p, feedforward=replace(p.feedforward, up=up))
        return apply_block(block, x, table, cfg)[0]

    assert_value_and_gradients(ours, theirs(layer.double()), (x, p.feedforward.up))


def assign(parameter: torch.nn.Parameter, value: jax.Array) -> None:
    assert parameter.shape == value.shape
    parameter.data = to_torch(value)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_pre_and_post(placement):
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, activation="relu", layer_norm=True, placement=placement)
    p = weights(cfg)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=placement == "pre")
    for parameter in layer.parameters():
        parameter.data.zero_()  # ours has no biases outside norms
    matrices = [w.reshape(WIDTH, -1).T for w in (p.query, p.key, p.value)]
    assign(layer.self_attn.in_proj_weight, jnp.concatenate(matrices))
    assign(layer.self_attn.out_proj.weight, p.output.reshape(-1, WIDTH).T)
    assign(layer.linear2.weight, p.feedforward.down.T)
    for own, other in ((p.attention_norm, layer.norm1), (p.feedforward_norm, layer.norm2)):
        assign(other.weight, own.scale)
        assert own.bias is not None
        assign(other.bias, own.bias)

    def theirs(layer: torch.nn.Module):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(TOKENS, dtype=torch.float64)
        return lambda x, up: torch.func.functional_call(layer, {"linear1.weight": up.T}, (x, mask))

    value_and_gradient_of(cfg, p, layer, theirs)


def test_sandwich():
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, placement="sandwich")
    p = weights(cfg)
    layer = Gemma2DecoderLayer(
        Gemma2Config(
            hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=SIZE, intermediate_size=HIDDEN,
            hidden_activation="silu", attn_logit_softcapping=None, query_pre_attn_scalar=SIZE, attn_implementation="eager",
        ),
        0,
    )  # fmt: skip
    attention, feedforward = layer.self_attn, layer.mlp
    for linear, own in ((attention.q_proj, p.query), (attention.k_proj, p.key), (attention.v_proj, p.value)):
        assign(linear.weight, own.reshape(WIDTH, -1).T)
    assign(attention.o_proj.weight, p.output.reshape(-1, WIDTH).T)
    assert p.feedforward.gate is not None
    assign(feedforward.gate_proj.weight, p.feedforward.gate.T)
    assign(feedforward.down_proj.weight, p.feedforward.down.T)
    norms = (
        (layer.input_layernorm, p.attention_norm), (layer.post_attention_layernorm, p.attention_end),
        (layer.pre_feedforward_layernorm, p.feedforward_norm), (layer.post_feedforward_layernorm, p.feedforward_end),
    )  # fmt: skip
    for other, own in norms:
        assert own is not None
        assign(other.weight, own.scale - 1)  # theirs multiplies by 1 + w

    def theirs(layer: torch.nn.Module):
        nope = (torch.ones(1, TOKENS, SIZE, dtype=torch.float64), torch.zeros(1, TOKENS, SIZE, dtype=torch.float64))
        mask = torch.full((TOKENS, TOKENS), -torch.inf, dtype=torch.float64).triu(1)[None, None]

        def called(x: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
            arguments = {"position_embeddings": nope, "attention_mask": mask}
            found = torch.func.functional_call(layer, {"mlp.up_proj.weight": up.T}, (x,), arguments)
            return found[0] if isinstance(found, tuple) else found

        return called

    value_and_gradient_of(cfg, p, layer, theirs)
