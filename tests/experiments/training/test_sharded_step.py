"""A model on several devices against one: forward pass, gradient, one step of training, and initial weights."""

from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.sample import Sample
from leadline.experiments.training.step import TrainState, Values, init_state, train_step
from leadline.model.attention.gate import GateConfig
from leadline.model.block import Biased
from leadline.model.decoder import DecoderConfig, apply_decoder
from leadline.model.mesh import make_mesh
from leadline.model.positions.alibi import alibi_slopes
from tests.model.weights import BLOCK, CONFIG, rope, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile")

ONE_LAYER = replace(CONFIG, layers=1)
MODELS = {
    "gated, grouped": replace(ONE_LAYER, block=replace(BLOCK, gate=GateConfig("output", "channel"))),
    "value gate, LayerNorm, GELU, learned positions, tied": replace(
        ONE_LAYER,
        block=replace(BLOCK, gate=GateConfig("value", "head"), layer_norm=True, activation="gelu"),
        tied=True,
        learned_positions=12,
    ),
    "experts, biases, norms after all heads": replace(
        CONFIG,
        layers=1,
        block=replace(
            BLOCK, experts=3, active_experts=2, biases=get_args(Biased), qk_norm=True, joint_qk_norm=True, placement="reordered"
        ),
        unembedding_bias=True,
        embedding_norm=True,
        zero_id=3,
        final_cap=5.0,
    ),
}
TRAIN = TrainConfig(steps=1, batch=8, learning_rate=1e-2, weight_decay=0.0)


def values(cfg: DecoderConfig) -> Values:
    tables = rope(cfg.layers, slopes=alibi_slopes(4), window=9)
    zero, one = jnp.float32(0), jnp.float32(1)
    rates = {"logit_rate": one, "weight_decay": zero, "clip": 1000 * one}
    return Values(tables=tables, sink_logit=zero, text=jnp.int32(0), measured={}, **rates)


def forward_and_step(state: TrainState, tokens: jax.Array, cfg: DecoderConfig) -> dict[str, Any]:
    """Logits and attention statistics, and what one step of training makes of the state."""
    v = values(cfg)
    logits, measured = apply_decoder(state.params, tokens[:, :-1], v.tables, cfg, measure=lambda trace: trace.attention)
    after, metrics = train_step(state, Sample(tokens), v, jnp.float32(1e-2), cfg, TRAIN)
    return {"logits": logits, "measured": measured, "after": after, **metrics}


def initial(cfg: DecoderConfig) -> TrainState:
    return init_state(jnp.uint32(3), values(cfg), cfg, TRAIN)


def on_mesh(state: TrainState, cfg: DecoderConfig, data: int, model: int) -> dict[str, Any]:
    """Of `forward_and_step`, on a mesh and fetched. Several CPU devices deadlock when programs queue: this waits."""
    tokens = np.random.default_rng(0).integers(0, 29, (8, 13), dtype=np.int32)
    # optax raises a float to an integer power, which strict promotion refuses.
    mesh = make_mesh(data=data, model=model)
    with jax.set_mesh(mesh), jax.numpy_dtype_promotion("standard"):
        shapes = jax.eval_shape(lambda: initial(cfg))
        shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf.sharding.spec if leaf.sharding else P()), shapes)
        arguments = jax.device_put(state, shardings), jax.device_put(tokens, P("data", None))
        outputs = jax.jit(forward_and_step, static_argnames="cfg")(*arguments, cfg)
        for leaf, sharding in zip(jax.tree.leaves(outputs["after"]), jax.tree.leaves(shardings), strict=True):
            assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
        return jax.device_get(outputs)


def drawn_state(cfg: DecoderConfig) -> TrainState:
    with jax.set_mesh(make_mesh()):
        state = jax.tree.map(lambda shape: np.zeros(shape.shape, shape.dtype), jax.eval_shape(lambda: initial(cfg)))
        return replace(state, params=jax.device_get(weights(cfg, sink_logit=0.0)))


def assert_close(tree: Any, expected: Any, atol: float) -> None:
    paths = jax.tree_util.tree_leaves_with_path(expected)
    for (path, leaf), other in zip(paths, jax.tree.leaves(tree), strict=True):
        np.testing.assert_allclose(other, leaf, atol=atol, err_msg=jax.tree_util.keystr(path))


@pytest.mark.parametrize("name", [name if "experts" in name else pytest.param(name, marks=pytest.mark.slow) for name in MODELS])
def test_sharded_equals_unsharded(name):
    cfg = MODELS[name]
    start = drawn_state(cfg)
    expected = on_mesh(start, cfg, 1, 1)
    momentum = expected["after"].optimizer[1].mu  # (1 - β₁) · gradient: nothing was clipped
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(momentum))
    sharded = on_mesh(start, cfg, 4, 2)
    for what in ("logits", "measured", "loss"):
        assert_close(sharded[what], expected[what], 2e-5)
    assert_close(sharded["after"].optimizer, expected["after"].optimizer, 1e-6)
    leaves = (jax.tree.leaves(t) for t in (momentum, start.params, sharded["after"].params, expected["after"].params))
    for gradient, before, after, reference in zip(*leaves, strict=True):
        # Adam's first step is the sign of the gradient: it magnifies rounding where the gradient is nearly zero.
        settled = np.abs(gradient) > 1e-5
        np.testing.assert_allclose(after[settled], reference[settled], atol=1e-4)
        assert np.abs(after - before)[settled].min() > 5e-3


def test_initial_weights_do_not_depend_on_the_mesh_but_their_place_does():
    trees = []
    for data, model in ((1, 1), (4, 2)):
        with jax.set_mesh(make_mesh(data=data, model=model)):
            trees.append(jax.jit(lambda: initial(CONFIG))())
    assert_close(jax.device_get(trees[1]), jax.device_get(trees[0]), 0)
    query = trees[1].params.blocks.query
    assert query.sharding.spec == P(None, "data", "model", None)
    assert query.addressable_shards[0].data.shape == (2, 4, 2, 8)
    assert trees[1].optimizer[1].mu.blocks.query.sharding.is_equivalent_to(query.sharding, 4)
