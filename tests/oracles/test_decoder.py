"""Blocks against torch (post), Gemma 2 (sandwich) and Qwen3-Next, and whole decoders (pre) against Llama and GPT-2."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from transformers import Gemma2Config, PreTrainedModel, Qwen3NextConfig
from transformers.models.gemma2.modeling_gemma2 import Gemma2DecoderLayer
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from leadline.model.attention.gate import GateConfig
from leadline.model.block import Block, BlockConfig, init_block
from leadline.model.decoder import Decoder, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.layer import apply_block
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import PositionTables, position_tables
from leadline.model.positions.yarn import yarn, yarn_attention_factor
from tests.model.naive import numbers
from tests.model.weights import drawn
from tests.oracles import published
from tests.oracles.compare import assert_close, assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
WIDTH, HEADS, GROUPS, SIZE, HIDDEN, BLOCK_TOKENS, BASE = 16, 4, 2, 4, 24, 6, 100.0
HIDDEN_KEYS = torch.full((BLOCK_TOKENS, BLOCK_TOKENS), -torch.inf, dtype=torch.float64).triu(1)
SIZES = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "head_dim": SIZE, "attn_implementation": "eager"}
ROPE = {"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": 1.0}


def weights(cfg: BlockConfig) -> Block:
    return drawn(lambda: init_block(jax.random.key(0), cfg), 2, uneven=0.3)


def compare(cfg: BlockConfig, p: Block, theirs: Any, changed: Callable[..., Block], given: Any, *, rope: bool) -> None:
    """Output, and gradients in x and in some weights, with which `changed` makes a block."""
    frequencies = inverse_frequencies(SIZE, BASE) if rope else None
    table = jax.tree.map(lambda leaf: leaf[0], position_tables(1, HEADS, SIZE, inverse_frequencies=frequencies))

    def ours(x: jax.Array, *values: jax.Array) -> jax.Array:
        return apply_block(changed(p, *values), x, table, cfg)[0]

    assert_value_and_gradients(ours, theirs, (numbers(4, 2, BLOCK_TOKENS, WIDTH), *given))


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


def test_post():
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, activation="relu", layer_norm=True, placement="post")
    p = weights(cfg)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
    for parameter in layer.parameters():
        parameter.data.zero_()  # ours has no biases outside norms
    norms = ((p.attention_norm, layer.norm1), (p.feedforward_norm, layer.norm2))
    assign(
        (layer.self_attn.in_proj_weight, jnp.concatenate([matrix(w) for w in (p.query, p.key, p.value)])),
        (layer.self_attn.out_proj.weight, p.output.reshape(-1, WIDTH).T),
        (layer.linear2.weight, p.feedforward.down.T),
        *[pair for norm, other in norms for pair in ((other.weight, norm.scale), (other.bias, norm.bias))],
    )
    layer.double()

    def theirs(x, up):
        return torch.func.functional_call(layer, {"linear1.weight": up.T}, (x, HIDDEN_KEYS))

    compare(cfg, p, theirs, with_up, [p.feedforward.up], rope=False)


def test_sandwich():
    cfg = BlockConfig(WIDTH, HEADS, HEADS, SIZE, HIDDEN, placement="sandwich")
    p = weights(cfg)
    gemma = {"intermediate_size": HIDDEN, "hidden_activation": "silu"}
    gemma |= {"attn_logit_softcapping": None, "query_pre_attn_scalar": SIZE}
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
        nope = (torch.ones(1, BLOCK_TOKENS, SIZE, dtype=torch.float64), torch.zeros(1, BLOCK_TOKENS, SIZE, dtype=torch.float64))
        given = {"position_embeddings": nope, "attention_mask": HIDDEN_KEYS[None, None]}
        output = torch.func.functional_call(layer, {"mlp.up_proj.weight": up.T}, (x,), given)
        return output[0] if isinstance(output, tuple) else output

    compare(cfg, p, theirs, with_up, [p.feedforward.up], rope=False)


NAMES = ("query", "key", "value", "output", "gate")


def silent(p: Block, query_norm: jax.Array, key_norm: jax.Array, *values: jax.Array) -> Block:
    """With these weights, and the last matrix of the feed-forward 0: x + attention(norm(x)) is left."""
    norms = {"query_norm": replace(p.query_norm, scale=query_norm), "key_norm": replace(p.key_norm, scale=key_norm)}
    feedforward = replace(p.feedforward, down=jnp.zeros_like(p.feedforward.down))
    return replace(p, **dict(zip(NAMES, values, strict=True)), **norms, feedforward=feedforward)


def test_attention_of_qwen():
    """A gate a channel on the output, in one matrix with the queries head by head; norms are kept less 1."""
    cfg = BlockConfig(WIDTH, HEADS, GROUPS, SIZE, HIDDEN, qk_norm=True, gate=GateConfig("output", "channel"))
    config = Qwen3NextConfig(num_key_value_heads=GROUPS, rms_norm_eps=1e-6, rope_parameters=ROPE, **SIZES)
    attention, rotary = qwen3_next.Qwen3NextAttention(config, 3), qwen3_next.Qwen3NextRotaryEmbedding(config)
    p = weights(cfg)

    def theirs(x, query_norm, key_norm, query, key, value, output, gate):
        q = torch.cat([query, gate], dim=-1)
        changes = {f"{name}_proj.weight": w.flatten(1).T for name, w in zip("qkv", (q, key, value), strict=True)}
        changes |= {"o_proj.weight": output.flatten(0, 1).T}
        changes |= {"q_norm.weight": query_norm - 1, "k_norm.weight": key_norm - 1}
        h = F.rms_norm(x, x.shape[-1:], to_torch(p.attention_norm.scale), eps=1e-6)
        positions = rotary(h, torch.arange(BLOCK_TOKENS)[None])
        return x + torch.func.functional_call(attention, changes, (h, positions, HIDDEN_KEYS))[0]

    given = [p.query_norm.scale, p.key_norm.scale, *(getattr(p, name) for name in NAMES)]
    compare(cfg, p, theirs, silent, given, rope=True)


TOKENS = 40
ROUNDING = 5e-5  # of float32, through three layers of magnified weights
DECODER = (published.LAYERS, published.HEADS, published.SIZE)


def rope(table: np.ndarray, factor: float = 1.0) -> PositionTables:
    return position_tables(*DECODER, inverse_frequencies=table, attention_factor=factor)


def llama_yarn() -> PreTrainedModel:
    turns = {"beta_fast": 2.0, "beta_slow": 0.1, "truncate": False}  # so that the ramp has pairs between its ends
    return published.llama(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, **turns)


YARN = yarn(published.SIZE, BASE, 4.0, 16, beta_fast=2.0, beta_slow=0.1, truncate=False)
# The structure and the model, how its weights become ours, and the tables of its positions.
CASES = {
    "llama": ("llama", published.llama, published.from_llama, rope(inverse_frequencies(published.SIZE, BASE))),
    "llama yarn": ("llama", llama_yarn, published.from_llama, rope(YARN, yarn_attention_factor(4.0))),
    "gpt2": ("gpt2", published.gpt2, published.from_gpt2, position_tables(*DECODER)),
}


def in_float32(tree: Decoder) -> Decoder:
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), tree)


@pytest.mark.parametrize("name", CASES)
def test_logits_attention_and_gradients(name):
    kind, build, convert, tables = CASES[name]
    model, cfg = build(), published.configuration(kind)
    text = np.random.default_rng(1).integers(0, published.VOCABULARY, (2, TOKENS))

    output = model(torch.from_numpy(text), output_attentions=True)
    loss = F.cross_entropy(output.logits[:, :-1].flatten(0, 1), torch.from_numpy(text[:, 1:]).flatten())
    loss.backward()
    theirs = {key: weight.detach().numpy() for key, weight in model.named_parameters()}
    gradients = {key: weight.grad.numpy() for key, weight in model.named_parameters()}

    @jax.jit
    def ours(p, tokens):
        def mean_loss(p):
            scores, statistics = apply_decoder(p, tokens, tables, cfg, measure=lambda trace: trace.attention)
            return jnp.mean(token_losses(scores[:, :-1], tokens[:, 1:])), (scores, statistics)

        return jax.value_and_grad(mean_loss, has_aux=True)(p)

    (our_loss, (scores, statistics)), gradient = ours(in_float32(convert(theirs)), jnp.asarray(text, jnp.int32))
    assert_close(scores, output.logits, ROUNDING, "logits")
    assert_close(our_loss, loss, ROUNDING, "loss")
    attentions = torch.stack(output.attentions)  # [L, B, N, T, S]
    assert_close(statistics.first, attentions[..., 0], ROUNDING, "attention to the first token")
    assert_close(statistics.received, attentions.sum(dim=3), ROUNDING, "attention that each token receives")
    expected = convert(gradients)
    blocks = expected.blocks.replace(sink_logit=np.zeros_like(expected.blocks.sink_logit))
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected.replace(blocks=blocks)), jax.tree.leaves(gradient), strict=True)
    for (path, reference), leaf in pairs:
        largest = np.abs(reference).max()
        np.testing.assert_allclose(leaf, reference, atol=1e-4 * largest, rtol=0, err_msg=jax.tree_util.keystr(path))
