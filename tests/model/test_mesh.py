"""Meshes: what they hold, and that sharded equals unsharded in forward pass, gradient and one step of training."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.config import TrainConfig
from experiments.train import TrainState, Values, init_state, train_step
from model.block import BlockConfig
from model.decoder import DecoderConfig, apply_decoder
from model.embedding import token_losses
from model.mesh import AXES, make_mesh
from model.positions.alibi import alibi_slopes
from model.positions.rope_scaling import inverse_frequencies
from model.positions.tables import position_tables

BLOCK = BlockConfig(width=16, heads=4, kv_heads=4, head_dim=4, hidden=32)
MODELS = {
    "plain": DecoderConfig(vocabulary=17, layers=2, block=BLOCK),
    "gated, grouped, scanned": DecoderConfig(
        vocabulary=17, layers=3, block=replace(BLOCK, kv_heads=2, gate="output_elementwise"), tied=False
    ),
    "value gate, LayerNorm, GELU, learned positions": DecoderConfig(
        vocabulary=17,
        layers=2,
        block=replace(BLOCK, kv_heads=2, gate="value_headwise", layer_norm=True, activation="gelu"),
        learned_positions=12,
    ),
}
TRAIN = TrainConfig(steps=1, batch=8, learning_rate=1e-2)


def values(cfg: DecoderConfig) -> Values:
    frequencies, slopes = inverse_frequencies(cfg.block.head_dim, 100.0), alibi_slopes(cfg.block.heads)
    tables = position_tables(cfg.layers, 4, 4, inverse_frequencies=frequencies, slopes=slopes, window=9)
    zero, one = jnp.float32(0), jnp.float32(1)
    return Values(tables=tables, extra_logit=zero, train_extra_logit=one, weight_decay=one / 10, clip=one)


def one_step(key: jax.Array, tokens: jax.Array, cfg: DecoderConfig) -> tuple[TrainState, dict[str, Any]]:
    """The first state and all that one step makes of it."""
    start, v = init_state(key, values(cfg), cfg, TRAIN), values(cfg)

    def mean_loss(params):
        scores, first = apply_decoder(params, tokens[:, :-1], v.tables, cfg, measure=lambda trace: trace.attention)
        return jnp.mean(token_losses(scores, tokens[:, 1:])), (scores, first)

    (_, (scores, measured)), gradient = jax.value_and_grad(mean_loss, has_aux=True)(start.params)
    after, metrics = train_step(start, tokens, v, jnp.float32(1e-2), cfg, TRAIN)
    return start, {"scores": scores, "measured": measured, "gradient": gradient, "after": after.params, **metrics}


@functools.cache
def on_mesh(name: str, data: int, model: int) -> tuple[TrainState, dict[str, Any]]:
    """Of `one_step`, on a mesh. Waits for it: programs of several CPU devices deadlock when many are queued."""
    tokens = np.random.default_rng(0).integers(0, 17, (8, 13), dtype=np.int32)
    # optax raises a float to an integer power, which strict promotion refuses.
    with jax.set_mesh(make_mesh(data=data, model=model)), jax.numpy_dtype_promotion("standard"):
        sharded = jax.device_put(tokens, jax.P("data", None))
        run = jax.jit(one_step, static_argnames="cfg")
        return jax.block_until_ready(run(jnp.uint32(3), sharded, MODELS[name]))


def assert_close(found: Any, expected: Any, atol: float) -> None:
    paths = jax.tree_util.tree_leaves_with_path(expected)
    for (path, leaf), other in zip(paths, jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(leaf), atol=atol, err_msg=jax.tree_util.keystr(path))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("data", "model"), [(8, 1), (4, 2)])
def test_sharded_equals_unsharded(name, data, model):
    start, found = on_mesh(name, data, model)
    whole_start, expected = on_mesh(name, 1, 1)
    assert_close(start.params, whole_start.params, 0)
    for what in ("scores", "measured", "gradient", "loss", "gradient_norm"):
        assert_close(found[what], expected[what], 2e-5)
    # Adam's first step is the sign of the gradient: it magnifies rounding where the gradient is nearly zero.
    steps = zip(*map(jax.tree.leaves, (expected["gradient"], start.params, found["after"], expected["after"])), strict=True)
    for gradient, before, after, reference in jax.device_get(list(steps)):
        settled = np.abs(gradient) > 1e-5
        np.testing.assert_allclose(after[settled], reference[settled], atol=1e-4)
        assert np.abs(after - before)[settled].min() > 5e-3


def test_weights_gradients_and_moments_are_sharded_alike():
    start, found = on_mesh("plain", 4, 2)
    query = start.params.blocks.query
    assert query.sharding.spec == jax.P(None, "data", "model", None)
    assert query.addressable_shards[0].data.shape == (2, 4, 2, 4)
    moments = [m.sharding.spec for m in jax.tree.leaves(start.optimizer) if m.shape == query.shape]
    assert query.sharding.spec in moments
    for tree in (found["gradient"], found["after"]):
        for leaf, weight in zip(jax.tree.leaves(tree), jax.tree.leaves(start.params), strict=True):
            assert leaf.sharding.is_equivalent_to(weight.sharding, weight.ndim)


def test_axes_that_are_not_named_are_one():
    mesh = make_mesh(data=4, model=2)
    assert mesh.axis_names == AXES
    assert dict(mesh.shape) == {"arm": 1, "data": 4, "model": 2}
    assert make_mesh(devices=jax.devices()[3:4]).devices.item() == jax.devices()[3]


def test_a_mesh_larger_than_the_machine_is_an_error():
    with pytest.raises(ValueError, match=r"needs 16 devices, 8 here"):
        make_mesh(data=8, model=2)
