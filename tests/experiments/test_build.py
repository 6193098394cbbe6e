"""From configuration to structure, tables and counts."""

import math
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from experiments.build import decoder_config, extended, extra_logit, matmul_parameters, training_flops
from experiments.config.model import Gate, ModelConfig, NoGate
from experiments.config.position import Alibi, LearnedPositions, Nope, Pope, Rope
from experiments.config.scaling import Extension, NtkAware, PositionInterpolation, Yarn
from experiments.config.scores import Clipped, FixedSink, LearnedSink, Relu, RowSink, Sigmoid, Softmax, Softpick
from experiments.position_tables import tables
from model.decoder import Decoder, apply_decoder, init_decoder
from model.embedding import token_losses
from model.kernels.kernel import Kernel
from model.positions import rope_scaling, yarn
from model.positions.alibi import alibi_slopes
from model.positions.phase import fixed_point
from model.positions.tables import NO_WINDOW

SMALL = ModelConfig(layers=3, width=16, heads=4, kv_heads=2, hidden=24, position=Rope(base=100.0))
V, T = 11, 32
GATES = [
    NoGate(),
    *(Gate(kind=kind, per=per) for kind in ("output", "value", "key", "query") for per in ("head", "channel", "shared")),
    Gate(kind="projection", per="channel"),
    Gate(kind="output", per="channel", dims=5),
]


def _matrices(model: ModelConfig) -> list[jax.ShapeDtypeStruct]:
    """Shapes of the matrices of the blocks, then of the unembedding."""

    def leaves() -> list[jax.Array]:
        params = init_decoder(jax.random.key(0), decoder_config(model, V, T))
        head = params.embedding if params.unembedding is None else params.unembedding
        return [leaf for leaf in jax.tree.leaves(params.blocks) if leaf.ndim >= 3] + [head]  # a layer axis and two more

    return jax.eval_shape(leaves)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: f"{gate.kind}-{getattr(gate, 'per', '')}")
def test_matmul_parameters_are_the_entries_of_the_matrices(mesh: Mesh, gate) -> None:  # noqa: ARG001
    model = SMALL.model_copy(update={"gate": gate})
    assert matmul_parameters(decoder_config(model, V, T)) == sum(matrix.size for matrix in _matrices(model))


@pytest.mark.parametrize(("feedforward", "tied"), [("swiglu", True), ("gelu", False), ("relu", True), ("relu", False)])
def test_so_they_are_of_every_feed_forward(mesh: Mesh, feedforward: str, tied: bool) -> None:  # noqa: ARG001
    model = SMALL.model_copy(update={"feedforward": feedforward, "tied": tied})
    assert matmul_parameters(decoder_config(model, V, T)) == sum(matrix.size for matrix in _matrices(model))
    assert decoder_config(model, V, T).tied == tied


@pytest.mark.parametrize(
    "model",
    [
        SMALL.model_copy(update={"layers": 1, "width": 64, "feedforward": "relu"}),
        SMALL.model_copy(update={"layers": 1, "width": 64, "gate": Gate(kind="output", per="channel"), "tied": False}),
    ],
    ids=["relu", "gated"],
)
@pytest.mark.usefixtures("in_use", "mesh")
def test_flops_are_those_that_the_compiler_counts(model: ModelConfig) -> None:
    cfg = decoder_config(model, 97, T)
    params = jax.jit(lambda: init_decoder(jax.random.key(0), cfg))()
    table = tables(model, T)

    def loss(params: Decoder, tokens: jax.Array) -> jax.Array:
        return jnp.mean(token_losses(apply_decoder(params, tokens[:, :-1], table, cfg)[0], tokens[:, 1:]))

    arguments = (params, jax.ShapeDtypeStruct((2, T + 1), jnp.int32))
    found = jax.jit(jax.value_and_grad(loss)).lower(*arguments).compile().cost_analysis() or {}
    # The compiler also counts what the formula leaves out: keys behind the mask, scores that the backward pass computes again,
    # and element-wise work, a few percent.
    heads_width = cfg.layers * cfg.block.heads * cfg.block.head_dim
    left_out = 12 * heads_width * (T - (T + 1) / 2) + 2 * heads_width * T
    assert 1.0 < found["flops"] / (2 * T) / (training_flops(cfg, T) + left_out) < 1.06


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
    plain = ModelConfig(width=16, heads=2, position=LearnedPositions())
    assert decoder_config(plain, V, T).learned_positions == T
    assert (decoder_config(plain, V, T).block.hidden, decoder_config(plain, V, T).block.kv_heads) == (64, 2)
    chosen = [decoder_config(SMALL.model_copy(update={"gate": gate}), V, T).block.gate for gate in GATES]
    assert chosen == [None, *(gate.structure() for gate in GATES[1:])]  # pyright: ignore[reportAttributeAccessIssue]
    limits = tables(SMALL.model_copy(update={"gate": Gate(kind="output", per="head", low=0.5, high=1.5)}), T).attention.gate
    np.testing.assert_array_equal(limits, [[0.5, 1.5]] * 3)


def test_what_is_a_value_leaves_the_structure_alone() -> None:
    positions = (Rope(base=7.0), Rope(base=100.0, scaling=Yarn(factor=2.0)), Alibi(), Nope())
    changes = [{"position": position} for position in positions] + [
        {"sink": LearnedSink()},
        {"window": 4, "kept": 1},
        {"temperature": 2.0},
    ]
    assert {decoder_config(SMALL.model_copy(update=change), V, T) for change in changes} == {decoder_config(SMALL, V, T)}


def test_kernels_and_their_values() -> None:
    kernels = (Softmax(), Clipped(), Softpick(), Relu(by="one"), Relu(), Relu(by="sum"), Sigmoid(), Sigmoid(normalised=True))
    names = [decoder_config(SMALL.model_copy(update={"kernel": kernel}), V, T).block.kernel for kernel in kernels]
    assert tuple(names) == get_args(Kernel)
    changed = SMALL.model_copy(update={"kernel": Clipped(low=-0.1, high=1.2), "temperature": 4.0, "soft_cap": 30.0})
    found = tables(changed, T).attention
    assert (found.scale[0], found.cap[1]) == (0.25, 30)
    np.testing.assert_allclose(found.clip, [[-0.1, 1.2]] * 3)
    own = tables(SMALL.model_copy(update={"kernel": Sigmoid(bias=-2.0)}), T).attention
    np.testing.assert_allclose(
        [tables(SMALL, T).attention.sigmoid_bias[0], own.sigmoid_bias[0]], [-math.log(T), -2.0], rtol=1e-6
    )


def test_prepended_rows() -> None:
    blocks = [decoder_config(SMALL.model_copy(update={"sink": sink}), V, T).block for sink in (RowSink(), RowSink(value=True))]
    assert [block.prepended for block in blocks] == ["key", "key_value"]
    assert [block.prepended_dims for block in blocks] == [None, None]
    assert extra_logit(SMALL.model_copy(update={"sink": RowSink()})) == (0.0, 0.0)
    short = decoder_config(SMALL.model_copy(update={"sink": RowSink(dims=2)}), V, T).block
    assert short.prepended_dims == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sink": RowSink(dims=5)}, "sink.dims = 5: the key has 4 channels"),
        ({"sink": RowSink(), "position": Pope(base=100.0)}, '"pope" has no row before the first token'),
    ],
)
def test_rows_that_cannot_be_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.model_validate(SMALL.model_dump() | changes)


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
def test_norms_stand_where_they_are_put(placement: str) -> None:
    assert decoder_config(SMALL.model_copy(update={"norm_placement": placement}), V, T).block.placement == placement


def test_extra_logits() -> None:
    assert extra_logit(SMALL) == (-math.inf, 0.0)
    assert extra_logit(SMALL.model_copy(update={"sink": FixedSink(logit=0.5)})) == (0.5, 0.0)
    assert extra_logit(SMALL.model_copy(update={"sink": LearnedSink(logit=-1.0)})) == (-1.0, 1.0)
    assert extra_logit(SMALL.model_copy(update={"sink": LearnedSink(rate=10.0)})) == (0.0, 10.0)


def test_rope_tables_are_those_of_their_scaling() -> None:
    cases = [
        (Rope(base=50.0), rope_scaling.inverse_frequencies(4, 50.0), 1.0),
        (
            Rope(base=50.0, scaling=PositionInterpolation(factor=4.0)),
            rope_scaling.position_interpolation(4, 50.0, 4.0),
            1.0,
        ),
        (Rope(base=50.0, scaling=NtkAware(factor=4.0)), rope_scaling.ntk_aware(4, 50.0, 4.0), 1.0),
        (
            Rope(base=50.0, scaling=Yarn(factor=4.0)),
            yarn.yarn(4, 50.0, 4.0, 128),
            0.1 * math.log(4) + 1,
        ),
        (
            Rope(base=50.0, scaling=Yarn(factor=4.0, original_length=999, attention_factor=1.5, truncate=False)),
            yarn.yarn(4, 50.0, 4.0, 999, truncate=False),
            1.5,
        ),
    ]
    found = []
    for position, frequencies, factor in cases:
        table = tables(SMALL.model_copy(update={"position": position}), 128)
        expected = fixed_point(np.tile(frequencies, (3, 1, 1)))
        np.testing.assert_array_equal(table.frequencies.units, expected.units)
        np.testing.assert_array_equal(table.frequencies.remainder, expected.remainder)
        np.testing.assert_allclose(table.attention_factor, factor, rtol=1e-7)
        np.testing.assert_array_equal(table.slopes, 0)
        found.append(np.asarray(table.frequencies.units).tobytes())
    assert len(set(found)) == len(cases)


def test_tables_without_rotation() -> None:
    for position, slopes in ((Alibi(), alibi_slopes(4)), (Nope(), np.zeros(4)), (LearnedPositions(), np.zeros(4))):
        table = tables(SMALL.model_copy(update={"position": position}), 128)
        assert not np.any(table.frequencies.units)
        assert not np.any(table.frequencies.remainder)
        np.testing.assert_array_equal(table.slopes, np.tile(slopes, (3, 1)).astype(np.float32))
        assert table.window.tolist() == [NO_WINDOW] * 3
    windowed = tables(SMALL.model_copy(update={"window": 5, "kept": 2}), 128)
    assert windowed.window.tolist() == [5] * 3
    assert windowed.kept.tolist() == [2] * 3


def test_extended_replaces_the_scaling_of_rope_only() -> None:
    alibi = SMALL.model_copy(update={"position": Alibi()})
    assert extended(SMALL, "none", 8.0) is SMALL
    assert extended(alibi, "none", 8.0) is alibi
    ways: tuple[tuple[Extension, Any], ...] = (("pi", PositionInterpolation), ("ntk", NtkAware), ("yarn", Yarn))
    for extension, scaling in ways:
        assert extended(alibi, extension, 8.0) is None
        assert extended(SMALL, extension, 1.0) is None
        longer = extended(SMALL, extension, 8.0)
        assert longer == SMALL.model_copy(update={"position": Rope(base=100.0, scaling=scaling(factor=8.0))})
