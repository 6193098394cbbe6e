"""From configuration to structure, tables and counts."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.model import (
    Clipped,
    FixedSink,
    Gate,
    KeyBias,
    LearnedSink,
    ModelConfig,
    NoGate,
    Relu,
    Sigmoid,
    Softmax,
    Softpick,
)
from leadline.experiments.config.position import Alibi, LearnedPositions, Nope, Rope
from leadline.experiments.config.scaling import NoScaling, NtkAware, PositionInterpolation, Yarn
from leadline.experiments.config.to_model import decoder_config, extended, matmul_parameters, sink_logit, training_flops
from leadline.experiments.config.to_tables import tables
from leadline.model.attention.gate import GateConfig
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.decoder import Decoder, apply_decoder, init_decoder
from leadline.model.embedding import token_losses
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.angles import fixed_point
from leadline.model.positions.frequencies import inverse_frequencies, ntk_aware, position_interpolation
from leadline.model.positions.yarn import yarn

SMALL = ModelConfig(layers=3, width=16, heads=4, kv_heads=2, hidden=24, position=Rope(base=100.0))
V, T = 11, 32
GATES = [
    NoGate(),
    *(Gate(kind=kind, per=per) for kind in ("output", "value", "key", "query") for per in ("head", "channel", "shared")),
    Gate(kind="projection", per="channel"),
    Gate(kind="output", per="channel", dims=5),
]


def _matrix_entries(model: ModelConfig) -> int:
    """The entries of all matrices of the blocks and of the unembedding."""

    def leaves() -> list[jax.Array]:
        params = init_decoder(jax.random.key(0), decoder_config(model, V, T))
        head = params.embedding if params.unembedding is None else params.unembedding
        return [leaf for leaf in jax.tree.leaves(params.blocks) if leaf.ndim >= 3] + [head]  # a layer axis and two more

    return sum(matrix.size for matrix in jax.eval_shape(leaves))


@pytest.mark.parametrize(
    "changes",
    [{"gate": gate} for gate in GATES]
    + [{"feedforward": name, "tied": tied} for name, tied in (("gelu", False), ("relu", True), ("relu", False))],
    ids=str,
)
@pytest.mark.usefixtures("mesh")
def test_matmul_parameters_are_the_entries_of_the_matrices(changes: dict[str, Any]) -> None:
    model = SMALL.model_copy(update=changes)
    assert matmul_parameters(decoder_config(model, V, T)) == _matrix_entries(model)


@pytest.mark.usefixtures("in_use", "mesh")
def test_flops_are_those_that_the_compiler_counts() -> None:
    gate = Gate(kind="output", per="channel")
    model = SMALL.model_copy(update={"layers": 1, "width": 64, "feedforward": "relu", "gate": gate, "tied": False})
    cfg = decoder_config(model, 97, T)
    params = jax.jit(lambda: init_decoder(jax.random.key(0), cfg))()
    table = tables(model, T)

    def loss(params: Decoder, tokens: jax.Array) -> jax.Array:
        return jnp.mean(token_losses(apply_decoder(params, tokens[:, :-1], table, cfg)[0], tokens[:, 1:]))

    arguments = (params, jax.ShapeDtypeStruct((2, T + 1), jnp.int32))
    analysis = jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile().cost_analysis() or {}
    # The compiler also counts what the formula leaves out: keys behind the mask, scores that the backward pass computes again,
    # and element-wise work, a few percent.
    heads_width = cfg.layers * cfg.block.heads * cfg.block.head_dim
    left_out = 12 * heads_width * (T - (T + 1) / 2) + 2 * heads_width * T
    assert 1.0 < analysis["flops"] / (2 * T) / (training_flops(cfg, T) + left_out) < 1.06


def test_a_window_bounds_the_keys_that_are_seen() -> None:
    cfg = decoder_config(SMALL, V, T)
    a_key = 12 * cfg.layers * cfg.block.heads * cfg.block.head_dim
    assert training_flops(cfg, 8) - 6 * matmul_parameters(cfg) == pytest.approx(a_key * 4.5)
    assert training_flops(cfg, 8, 3) - 6 * matmul_parameters(cfg) == pytest.approx(a_key * (1 + 2 + 3 * 6) / 8)
    assert training_flops(cfg, 8, 100) == training_flops(cfg, 8)
    assert training_flops(cfg, 8, 2, 1) == training_flops(cfg, 8, 3)


def test_structure_of_a_model() -> None:
    cfg = decoder_config(SMALL, V, T)
    assert (cfg.block.head_dim, cfg.block.kv_heads, cfg.learned_positions) == (4, 2, 0)
    plain = decoder_config(ModelConfig(width=16, heads=2, position=LearnedPositions()), V, T)
    assert (plain.learned_positions, plain.block.hidden, plain.block.kv_heads) == (T, 64, 2)
    assert (cfg.tied, decoder_config(SMALL.model_copy(update={"tied": False}), V, T).tied) == (True, False)
    gates = [decoder_config(SMALL.model_copy(update={"gate": gate}), V, T).block.gate for gate in GATES]
    assert gates[0] is None
    for placement in ("pre", "post", "sandwich"):
        assert decoder_config(SMALL.model_copy(update={"norm_placement": placement}), V, T).block.placement == placement
    assert gates[-1] == GateConfig("output", "channel", dims=5)
    limits = tables(SMALL.model_copy(update={"gate": Gate(kind="output", per="head", low=0.5, high=1.5)}), T).attention.gate
    np.testing.assert_array_equal(limits, [[0.5, 1.5]] * 3)


def test_what_is_a_value_leaves_the_structure_alone() -> None:
    positions = (Rope(base=7.0), Rope(base=100.0, scaling=Yarn(factor=2.0)), Alibi(), Nope())
    changes = [{"position": position} for position in positions] + [
        {"sink": LearnedSink()},
        {"window": 4, "initial_tokens": 1},
        {"temperature": 2.0},
    ]
    assert {decoder_config(SMALL.model_copy(update=change), V, T) for change in changes} == {decoder_config(SMALL, V, T)}


def test_normalizers_and_their_values() -> None:
    choices = (Softmax(), Clipped(), Softpick(), Relu(by="one"), Relu(), Relu(by="sum"), Sigmoid(), Sigmoid(normalised=True))
    models = [SMALL.model_copy(update={"normalizer": choice}) for choice in choices]
    assert [decoder_config(model, V, T).block.normalizer for model in models] == list(NORMALIZERS)
    changes = {"normalizer": Clipped(low=-0.1, high=1.2), "temperature": 4.0, "soft_cap": 30.0}
    values = tables(SMALL.model_copy(update=changes), T).attention
    assert (values.scale[0], values.cap[1]) == (0.25, 30)
    np.testing.assert_allclose(values.normalizer, [[-0.1, 1.2]] * 3)
    for bias, expected in ((None, -math.log(T)), (-2.0, -2.0)):
        sigmoid = SMALL.model_copy(update={"normalizer": Sigmoid(bias=bias)})
        np.testing.assert_allclose(tables(sigmoid, T).attention.normalizer[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (KeyBias(kind="key_bias"), (True, False, None)),
        (KeyBias(kind="key_value_bias"), (True, True, None)),
        (KeyBias(kind="key_bias", dims=2), (True, False, 2)),
    ],
)
def test_key_biases(sink: KeyBias, expected: tuple[bool, bool, int | None]) -> None:
    block = decoder_config(SMALL.model_copy(update={"sink": sink}), V, T).block
    assert (block.key_bias, block.value_bias, block.key_bias_dims) == expected


def test_sink_logits() -> None:
    assert sink_logit(SMALL) == (-math.inf, 0.0)
    for sink, expected in (
        (KeyBias(kind="key_bias"), (0.0, 0.0)),
        (FixedSink(logit=0.5), (0.5, 0.0)),
        (LearnedSink(logit=-1.0), (-1.0, 1.0)),
        (LearnedSink(rate=10.0), (0.0, 10.0)),
    ):
        assert sink_logit(SMALL.model_copy(update={"sink": sink})) == expected


def test_rope_tables_are_those_of_their_scaling() -> None:
    long = Yarn(factor=4.0, original_length=999, attention_factor=1.5, truncate=False)
    cases = [
        (NoScaling(), inverse_frequencies(4, 50.0), 1.0),
        (PositionInterpolation(factor=4.0), position_interpolation(4, 50.0, 4.0), 1.0),
        (NtkAware(factor=4.0), ntk_aware(4, 50.0, 4.0), 1.0),
        (Yarn(factor=4.0), yarn(4, 50.0, 4.0, 128), 0.1 * math.log(4) + 1),
        (long, yarn(4, 50.0, 4.0, 999, truncate=False), 1.5),
    ]
    distinct = set()
    for scaling, frequencies, factor in cases:
        table = tables(SMALL.model_copy(update={"position": Rope(base=50.0, scaling=scaling)}), 128)
        expected = fixed_point(np.tile(frequencies, (3, 1, 1)))
        np.testing.assert_array_equal(table.frequencies.units, expected.units)
        np.testing.assert_array_equal(table.frequencies.remainder, expected.remainder)
        np.testing.assert_allclose(table.attention_factor, factor, rtol=1e-7)
        np.testing.assert_array_equal(table.slopes, 0)
        distinct.add(np.asarray(table.frequencies.units).tobytes())
    assert len(distinct) == len(cases)


def test_tables_without_rotation() -> None:
    for position, slopes in ((Alibi(), alibi_slopes(4)), (Nope(), np.zeros(4)), (LearnedPositions(), np.zeros(4))):
        table = tables(SMALL.model_copy(update={"position": position}), 128)
        assert not np.any(table.frequencies.units)
        assert not np.any(table.frequencies.remainder)
        np.testing.assert_array_equal(table.slopes, np.tile(slopes, (3, 1)).astype(np.float32))
        assert table.window.tolist() == [NO_WINDOW] * 3
    windowed = tables(SMALL.model_copy(update={"window": 5, "initial_tokens": 2}), 128)
    assert windowed.window.tolist() == [5] * 3
    assert windowed.initial_tokens.tolist() == [2] * 3


def test_extended_replaces_the_scaling_of_rope_only() -> None:
    alibi = SMALL.model_copy(update={"position": Alibi()})
    assert extended(alibi, "yarn", 8.0) is None
    assert extended(SMALL, "yarn", 1.0) is None
    dropped = SMALL.model_copy(update={"position": Rope(base=100.0, drop_after=0.5)})
    assert extended(dropped, "yarn", 8.0) is None
    position = Rope(base=100.0, scaling=NtkAware(factor=2.0))
    longer = extended(SMALL.model_copy(update={"position": position}), "yarn", 8.0)
    assert longer == SMALL.model_copy(update={"position": Rope(base=100.0, scaling=Yarn(factor=8.0))})
