"""From configuration to structure and counts."""

import math
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from leadline.experiments.config.data import PADDING
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config, extended, matmul_parameters, sink_logits, training_flops
from leadline.experiments.config.to_tables import tables
from leadline.model.attention.gate import GateConfig
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import token_losses
from leadline.model.encoder_decoder import EncoderDecoderConfig, apply_model, init_model
from leadline.model.positions.t5 import T5

ROPE = {"kind": "rope", "base": 100.0}
SMALL: dict[str, Any] = {"layers": 3, "width": 16, "heads": 4, "kv_heads": 2, "hidden": 24, "position": ROPE}
V, T = 11, 32
NOPE = {"kind": "nope"}
MIXED = {"window": 4, "windowed": (True, False)}
GATES = [
    {"kind": "none"},
    *({"kind": kind, "per": per} for kind in ("output", "value", "key", "query") for per in ("head", "channel", "shared")),
    {"kind": "projection", "per": "channel"},
    {"kind": "output", "per": "channel", "dims": 5},
]
# As NORMALIZERS has them.
CHOICES = [
    *({"kind": kind} for kind in ("softmax", "clipped", "softpick")),
    {"kind": "softpick", "by": "sum"},
    *({"kind": "relu", "by": by} for by in ("one", "keys", "sum")),
    *({"kind": "sigmoid", "normalised": normalised} for normalised in (False, True)),
]
KEY_BIAS, BOTH_BIASES = {"kind": "key_bias"}, {"kind": "key_value_bias"}


def _with(**changes: Any) -> ModelConfig:
    return ModelConfig.model_validate(SMALL | changes)


def _structure(**changes: Any) -> DecoderConfig:
    return decoder_config(_with(**changes), V, T)


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({}, "block.head_dim", 4),
        ({}, "block.kv_heads", 2),
        ({"kv_heads": None}, "block.kv_heads", 4),
        ({"hidden": None}, "block.hidden", 64),
        ({"position": ROPE | {"interleaved": True}}, "block.interleaved", True),
        ({**MIXED, "position": NOPE, "window_position": ROPE | {"interleaved": True}}, "block.interleaved", True),
        ({**MIXED, "position": NOPE, "window_position": {"kind": "axial", "grid": [4]}}, "grid", (4,)),
        ({}, "learned_positions", 0),
        ({"position": {"kind": "learned"}}, "learned_positions", T),
        ({}, "tied", True),
        ({"tied": False}, "tied", False),
        *(({"norm_placement": placement}, "block.placement", placement) for placement in ("pre", "post", "sandwich")),
        *(({"normalizer": choice}, "block.normalizer", name) for choice, name in zip(CHOICES, NORMALIZERS, strict=True)),
        ({"norm_placement": "reordered"}, "block.placement", "reordered"),
        ({"norm_epsilon": 0.1}, "block.norm_epsilon", 0.1),
        ({}, "block.norm_offset", 0),
        ({"zero_centered_norm": True}, "block.norm_offset", 1),
        ({"biases": ("key", "feedforward")}, "block.biases", ("key", "feedforward")),
        ({}, "block.experts", 0),
        ({"experts": 4, "active_experts": 3}, "block.active_experts", 3),
        ({"qk_norm": True, "joint_qk_norm": True}, "block.joint_qk_norm", True),
        ({"clip_qkv": 8.0}, "block.clip", 8.0),
        ({"embedding_norm": True}, "embedding_norm", True),
        ({}, "embedding_init_scale", None),
        ({"embedding_init_scale": 0.02}, "embedding_init_scale", 0.02),
        ({"uniform_embedding_init": True}, "uniform_embedding_init", True),
        ({"encoder": {"layers": 1}, "position": {"kind": "nope"}}, "zero_id", None),
        ({"encoder": {"layers": 1}, "position": {"kind": "nope"}, "zero_padding_embedding": True}, "encoder.zero_id", PADDING),
        ({"final_cap": 30.0}, "final_cap", 30.0),
        ({"unembedding_bias": True}, "unembedding_bias", True),
        ({"gate": {"kind": "none"}}, "block.gate", None),
        ({"gate": GATES[-1]}, "block.gate", GateConfig("output", "channel", dims=5)),
        ({"sink": KEY_BIAS}, "block.key_bias", True),
        ({"sink": KEY_BIAS}, "block.value_bias", False),
        ({"sink": KEY_BIAS}, "block.key_bias_dims", None),
        ({"sink": {**KEY_BIAS, "dims": 2}}, "block.key_bias_dims", 2),
        ({"sink": BOTH_BIASES}, "block.key_bias", True),
        ({"sink": BOTH_BIASES}, "block.value_bias", True),
    ],
    ids=str,
)
def test_a_setting_chooses_its_structure(changes: dict[str, Any], name: str, expected: Any) -> None:
    assert attrgetter(name)(_structure(**changes)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        *({"position": {"kind": kind}} for kind in ("alibi", "nope")),
        *({"position": ROPE | other} for other in ({"base": 7.0}, {"scaling": {"kind": "yarn", "factor": 2.0}})),
        {"sink": {"kind": "learned"}},
        {"window": 4, "initial_tokens": 1},
        {"window": 4, "windowed": (True, False), "window_position": ROPE | {"base": 7.0}},
        {"window": 4, "windowed": (True, False), "window_sink": {"kind": "learned"}, "chunked": True},
        {"temperature": 2.0},
    ],
    ids=str,
)
def test_what_is_a_value_leaves_the_structure_alone(changes: dict[str, Any]) -> None:
    assert _structure(**changes) == _structure()


@pytest.mark.parametrize(
    "changes",
    [{"gate": gate} for gate in GATES]
    + [{"feedforward": name, "tied": tied} for name, tied in (("gelu", False), ("relu", True), ("relu", False))],
    ids=str,
)
@pytest.mark.usefixtures("mesh")
def test_matmul_parameters_are_the_entries_of_the_matrices(changes: dict[str, Any]) -> None:
    cfg = _structure(**changes)
    params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg))
    head = params.embedding if params.unembedding is None else params.unembedding
    matrices = [leaf for leaf in jax.tree.leaves(params.blocks) if leaf.ndim >= 3]  # a layer axis and two more
    assert matmul_parameters(cfg) == sum(leaf.size for leaf in (*matrices, head))


@pytest.mark.usefixtures("mesh")
def test_a_token_goes_through_the_router_and_its_experts() -> None:
    few, all_of_them = _structure(experts=4, active_experts=3), _structure(experts=4, active_experts=4)
    params = jax.eval_shape(lambda: init_decoder(jax.random.key(0), few))
    networks = sum(leaf.size for leaf in jax.tree.leaves(params.blocks.feedforward.networks))
    assert matmul_parameters(all_of_them) - matmul_parameters(few) == networks / 4
    router = params.blocks.feedforward.router.size
    assert matmul_parameters(_structure(experts=1)) - matmul_parameters(_structure()) == router / 4


def test_an_encoder_is_a_second_stack_with_rows_of_its_own_in_the_tables() -> None:
    model = _with(encoder={"layers": 2, "shared_embedding": False}, position={"kind": "learned"}, final_norm=False)
    cfg = decoder_config(model, V, T)
    assert isinstance(cfg, EncoderDecoderConfig)
    assert (cfg.layers, cfg.encoder.layers, cfg.block.cross, cfg.encoder.block.cross) == (3, 2, True, False)
    assert (cfg.shared_embedding, cfg.final_norm, cfg.learned_positions) == (False, False, T // 2)
    assert tables(model, T).window.shape == (5,)
    assert type(_structure()) is DecoderConfig


@pytest.mark.usefixtures("in_use", "mesh")
def test_t5_counts_both_ways_in_the_encoder_and_each_stack_may_share_a_table() -> None:
    model = _with(encoder={"layers": 2}, position={"kind": "t5", "buckets": 8, "furthest": 9, "shared": True})
    cfg = decoder_config(model, 7, 12)
    assert isinstance(cfg, EncoderDecoderConfig)
    assert (cfg.block.position_bias, cfg.encoder.block.position_bias) == (T5(8, 9), T5(8, 9, both_ways=True))
    params = jax.eval_shape(lambda: init_model(jax.random.key(0), cfg))
    assert params.blocks.position_bias is params.encoder.blocks.position_bias is None
    assert params.position_bias.table.shape == params.encoder.position_bias.table.shape == (8, model.heads)


def test_flops_of_an_encoder_decoder_are_those_that_the_compiler_counts() -> None:
    sizes = {"layers": 2, "width": 64, "hidden": 96, "feedforward": "relu", "position": {"kind": "nope"}}
    model = _with(**sizes, encoder={"layers": 1})
    cfg, table = decoder_config(model, 97, T), tables(model, T)

    def loss(params: Decoder, tokens: jax.Array) -> jax.Array:
        return jnp.mean(token_losses(apply_model(params, tokens[:, :-1], table, cfg)[0], tokens[:, 1:]))

    arguments = (jax.eval_shape(lambda: init_model(jax.random.key(0), cfg)), jax.ShapeDtypeStruct((2, T + 1), jnp.int32))
    analysis = jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile().cost_analysis() or {}
    # Besides what the formula counts there are masked keys, recomputed scores and element-wise work.
    assert 1.0 < analysis["flops"] / (2 * T) / training_flops(cfg, T, model) < 1.12


@pytest.mark.usefixtures("in_use", "mesh")
def test_flops_are_those_that_the_compiler_counts() -> None:
    model = _with(layers=1, width=64, feedforward="relu", gate={"kind": "output", "per": "channel"}, tied=False)
    cfg, table = decoder_config(model, 97, T), tables(model, T)

    def loss(params: Decoder, tokens: jax.Array) -> jax.Array:
        return jnp.mean(token_losses(apply_decoder(params, tokens[:, :-1], table, cfg)[0], tokens[:, 1:]))

    arguments = (jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg)), jax.ShapeDtypeStruct((2, T + 1), jnp.int32))
    analysis = jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile().cost_analysis() or {}
    # The compiler also counts what the formula leaves out: keys behind the mask, scores that the backward pass computes again,
    # and element-wise work, a few percent.
    heads_width = cfg.layers * cfg.block.heads * cfg.block.head_dim
    left_out = 12 * heads_width * (T - (T + 1) / 2) + 2 * heads_width * T
    assert 1.0 < analysis["flops"] / (2 * T) / (training_flops(cfg, T, model) + left_out) < 1.06


@pytest.mark.parametrize(
    ("windows", "seen"),
    [
        ({}, 4.5),
        ({"window": 3}, (1 + 2 + 3 * 6) / 8),
        ({"window": 100}, 4.5),
        ({"window": 2, "initial_tokens": 1}, (1 + 2 + 3 * 6) / 8),
        ({"window": 3, "windowed": [True, False]}, ((1 + 2 + 3 * 6) / 8 + 4.5) / 2),
        ({"window": 3, "chunked": True}, (6 + 6 + 3) / 8),
        ({"window": 3, "windowed": [True, False], "chunked": True}, ((6 + 6 + 3) / 8 + 4.5) / 2),
    ],
)
def test_a_window_bounds_the_keys_that_are_seen(windows: dict[str, Any], seen: float) -> None:
    model = _with(layers=2, **windows)
    cfg = decoder_config(model, V, T)
    a_key = 12 * cfg.layers * cfg.block.heads * cfg.block.head_dim
    assert training_flops(cfg, 8, model) - 6 * matmul_parameters(cfg) == pytest.approx(a_key * seen)


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ({"kind": "none"}, (-math.inf, 0.0)),
        (KEY_BIAS, (0.0, 0.0)),
        ({"kind": "fixed", "logit": 0.5}, (0.5, 0.0)),
        ({"kind": "learned", "logit": -1.0}, (-1.0, 1.0)),
        ({"kind": "learned", "rate": 10.0}, (0.0, 10.0)),
    ],
)
def test_a_sink_has_a_first_logit_and_a_rate(sink: Any, expected: tuple[float, float]) -> None:
    logits, rate = sink_logits(_with(sink=sink))
    assert (logits.tolist(), rate) == ([expected[0]] * 3, expected[1])


@pytest.mark.parametrize(
    ("position", "factor", "expected"),
    [
        ({"kind": "alibi"}, 8.0, None),
        (ROPE, 1.0, None),
        (ROPE | {"drop_after": 0.5}, 8.0, None),
        (ROPE | {"scaling": {"kind": "ntk", "factor": 2.0}}, 8.0, ROPE | {"scaling": {"kind": "yarn", "factor": 8.0}}),
    ],
)
def test_an_extension_replaces_the_scaling_of_rope_only(position: Any, factor: float, expected: Any) -> None:
    assert extended(_with(position=position), "yarn", factor) == (expected and _with(position=expected))


YARN = {"scaling": {"kind": "yarn", "factor": 8.0}}
WINDOWS = {"window": 4, "windowed": (True, False)}
SLOW = ROPE | {"base": 7.0}


@pytest.mark.parametrize(
    ("extension", "positions", "expected"),
    [
        ("yarn", {}, {"position": ROPE | YARN}),
        ("yarn_full", {}, {"position": ROPE | YARN, "window_position": ROPE}),
        ("yarn", {"window_position": SLOW}, {"position": ROPE | YARN, "window_position": SLOW | YARN}),
        ("yarn_full", {"window_position": SLOW}, {"position": ROPE | YARN, "window_position": SLOW}),
        ("yarn", {"position": NOPE, "window_position": SLOW}, {"position": NOPE, "window_position": SLOW | YARN}),
        ("yarn_full", {"position": NOPE, "window_position": SLOW}, None),
        ("yarn_full", {"windowed": ()}, None),
        ("dynamic_ntk_query", {"position": NOPE, "window_position": SLOW}, None),
    ],
)
def test_an_extension_is_of_all_layers_or_of_those_without_a_window(extension: Any, positions: Any, expected: Any) -> None:
    changed = extended(_with(**WINDOWS | positions), extension, 8.0)
    assert changed == (expected and _with(**WINDOWS | positions | expected))
