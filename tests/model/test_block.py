"""One block: its structure, its gates, and what it reports."""

from dataclasses import replace
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.gate import GateConfig, Per
from leadline.model.block import Block, BlockConfig, init_block
from leadline.model.layer import apply_block
from leadline.model.norm import Norm
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import PositionTables, position_tables
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh")

CONFIG = BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32)
GATES = pytest.mark.parametrize(
    "gate",
    [
        *(GateConfig("output", per) for per in get_args(Per)),
        GateConfig("value", "head"),
        GateConfig("key", "channel"),
        GateConfig("query", "shared"),
        GateConfig("projection", "channel"),
    ],
    ids=lambda gate: f"{gate.where}-{gate.per}",
)
TOKENS = 7


def row(tables: PositionTables) -> PositionTables:
    return jax.tree.map(lambda leaf: leaf[0], tables)


def rope() -> PositionTables:
    return row(position_tables(1, 4, 8, inverse_frequencies=inverse_frequencies(8, 100.0)))


def draw(seed: int = 1) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (2, TOKENS, CONFIG.width))


def block(cfg: BlockConfig, seed: int = 0) -> Block:
    return drawn(lambda: init_block(jax.random.key(0), cfg, sink_logit=0.0, depth=2), seed)


def apply(p: Block, x: jax.Array, cfg: BlockConfig):
    return jax.jit(apply_block, static_argnames="cfg")(p, x, rope(), cfg)[:2]


def with_gate_at(value: float, cfg: BlockConfig) -> Block:
    """A block all of whose gates are σ(value): LayerNorm makes channel 0 one, and only that channel feeds the gate."""
    p = block(cfg)
    bias = p.attention_norm.bias
    assert bias is not None
    assert p.gate is not None
    norm = Norm(scale=p.attention_norm.scale.at[0].set(0), bias=bias.at[0].set(1))
    return replace(p, attention_norm=norm, gate=jnp.zeros_like(p.gate).at[0].set(value))


@GATES
def test_an_open_gate_is_no_gate(gate):
    """σ(40) is one in float32."""
    cfg = replace(CONFIG, layer_norm=True, gate=gate)
    p = with_gate_at(40.0, cfg)
    gated, trace = apply(p, draw(), cfg)
    plain, _ = apply(replace(p, gate=None), draw(), replace(cfg, gate=None))
    np.testing.assert_array_equal(trace.gate, 1)
    np.testing.assert_allclose(gated, plain, atol=1e-6)


@pytest.mark.parametrize("where", ["output", "value", "projection"])
def test_a_closed_gate_lets_nothing_through(where):
    gate = GateConfig(where, "channel")
    cfg = replace(CONFIG, layer_norm=True, gate=gate)
    p = with_gate_at(-100.0, cfg)
    gated, trace = apply(p, draw(), cfg)
    silent, _ = apply(replace(p, output=jnp.zeros_like(p.output)), draw(), cfg)
    assert trace.gate.max() < 1e-30
    np.testing.assert_allclose(gated, silent, atol=1e-6)


@pytest.mark.parametrize("where", ["query", "key"])
def test_behind_a_closed_gate_a_query_sees_all_keys_alike(where):
    cfg = replace(CONFIG, layer_norm=True, gate=GateConfig(where, "head"))
    _, trace = apply(with_gate_at(-100.0, cfg), draw(), cfg)
    np.testing.assert_allclose(trace.attention.first, np.broadcast_to(1 / (1 + np.arange(TOKENS)), (2, 4, TOKENS)), rtol=1e-6)


def test_twice_a_sigmoid_of_zero_is_no_gate():
    cfg = replace(CONFIG, gate=GateConfig("output", "channel", zero=True))
    p = replace(block(cfg), gate=jnp.zeros((16, 4, 8)))
    tables = rope()
    twice = replace(tables, attention=replace(tables.attention, gate=jnp.asarray([0.0, 2.0])))
    gated, _, _ = jax.jit(apply_block, static_argnames="cfg")(p, draw(), twice, cfg)
    plain, _ = apply(replace(p, gate=None), draw(), replace(cfg, gate=None))
    np.testing.assert_allclose(gated, plain, atol=1e-6)


@GATES
def test_gates_have_the_shape_of_what_they_gate(gate):
    cfg = replace(CONFIG, gate=gate)
    _, trace = apply(block(cfg), draw(), cfg)
    assert trace.gate is not None
    heads = cfg.heads if gate.where in ("output", "query") else cfg.kv_heads
    shapes = {"head": (heads,), "channel": (heads, 8), "shared": (8,)}
    assert trace.gate.shape == (2, TOKENS, *(shapes[gate.per] if gate.where != "projection" else (16,)))


def test_a_gate_on_the_values_is_not_the_gate_on_the_output():
    """With equal weights: the one is that of the key's token, the other that of the query's."""
    outputs = {}
    for gate in ("value", "output"):
        cfg = replace(CONFIG, kv_heads=4, gate=GateConfig(gate, "head"))
        outputs[gate], _ = apply(block(cfg), draw(), cfg)
    first, second = outputs.values()
    np.testing.assert_allclose(first[:, 0], second[:, 0], atol=1e-5)  # the first token sees itself only
    assert np.abs(first[:, 1:] - second[:, 1:]).max() > 1e-2


def test_value_norms_are_those_behind_a_gate_on_the_values():
    cfg = replace(CONFIG, layer_norm=True, gate=GateConfig("value", "head"))
    p = with_gate_at(0.0, cfg)  # σ(0) = 1/2
    _, gated = apply(p, draw(), cfg)
    _, plain = apply(replace(p, gate=None), draw(), replace(cfg, gate=None))
    np.testing.assert_allclose(gated.value_norm, plain.value_norm / 2, rtol=1e-5)


def test_the_trace_holds_the_residual_stream_behind_the_layer():
    y, trace = apply(block(CONFIG), draw(), CONFIG)
    np.testing.assert_array_equal(trace.residual, y)
    assert trace.gate is None


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_equal_copied_ones(kv_heads):
    cfg = replace(CONFIG, kv_heads=kv_heads)
    p = block(cfg)
    copies = replace(p, **{name: jnp.repeat(getattr(p, name), 4 // kv_heads, axis=1) for name in ("key", "value")})
    np.testing.assert_allclose(
        apply(p, draw(), cfg)[0], apply(copies, draw(), replace(cfg, kv_heads=4))[0], rtol=1e-6, atol=1e-6
    )


def test_layouts_of_rope_are_equal_up_to_a_permutation_of_the_query_and_key_channels():
    p, order = block(CONFIG), np.arange(8).reshape(2, -1).T.ravel()
    permuted = replace(p, query=p.query[..., order], key=p.key[..., order])
    halves, _ = apply(p, draw(), CONFIG)
    interleaved, _ = apply(permuted, draw(), replace(CONFIG, interleaved=True))
    np.testing.assert_allclose(interleaved, halves, atol=1e-6)


def test_initial_matrices_that_write_to_the_residual_stream_are_smaller():
    """By 1 / sqrt(2 · depth): all others have 1 / sqrt(fan-in) = 1/8, times the 0.9866 of a normal cut at ±3."""
    cfg = BlockConfig(width=64, heads=8, kv_heads=8, head_dim=8, hidden=64)
    p = jax.jit(init_block, static_argnames=("cfg", "depth"))(jax.random.key(0), cfg, sink_logit=0.5, depth=8)
    for matrix, gain in [(p.query, 1), (p.value, 1), (p.feedforward.up, 1), (p.output, 1 / 4), (p.feedforward.down, 1 / 4)]:
        assert jnp.std(matrix).item() == pytest.approx(0.9866 * gain / 8, rel=0.05)
    np.testing.assert_array_equal(p.sink_logit, 0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_heads": 3}, "4 query heads cannot share 3"),
        ({"head_dim": 7}, "head dimension 7 must be even"),
        ({"key_bias": True, "key_bias_dims": 9}, "a key of 8 channels has no first 9"),
        ({"key_bias": True, "polar": True}, "PoPE's keys have twice the channels"),
        ({"value_bias": True}, "set key_bias too"),
        ({"normalizer": "softmaxx"}, "unknown normalizer 'softmaxx': choose one of softmax, clipped"),
    ],
)
def test_impossible_shapes_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_a_key_bias_of_few_channels_is_one_whose_others_are_zero():
    few, all_of_them = (replace(CONFIG, key_bias=True, key_bias_dims=dims) for dims in (3, None))
    p, x = replace(block(few), sink_logit=jnp.zeros(4)), draw()
    assert p.key_bias is not None
    assert p.key_bias.shape == (2, 3)
    padded = replace(p, key_bias=jnp.pad(p.key_bias, [(0, 0), (0, 5)]))
    np.testing.assert_allclose(apply(p, x, few)[0], apply(padded, x, all_of_them)[0], atol=1e-6)
    moved = replace(p, key_bias=p.key_bias + 1)
    assert np.abs(apply(moved, x, few)[0] - apply(p, x, few)[0]).max() > 1e-3
