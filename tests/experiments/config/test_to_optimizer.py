"""The optimisers: what one or two steps do to a small tree of weights."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from leadline.experiments.config.to_optimizer import UPDATE_SIZE, optimizer
from leadline.experiments.config.train import AdamW, Muon, Optimizer, Sgd, TrainConfig
from leadline.model.block import BlockConfig
from leadline.model.decoder import Decoder, DecoderConfig, init_decoder
from leadline.model.positions.fire import Fire
from leadline.model.positions.kerple import Kerple
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh", "in_use")
MODEL = DecoderConfig(
    vocabulary=7, layers=2, block=BlockConfig(width=8, heads=2, kv_heads=1, head_dim=4, hidden=12), learned_positions=5
)


def steps(kind: Optimizer, gradients: list[Decoder], *, logit_rate: float = 1.0) -> list[Decoder]:
    """The updates of consecutive gradients at a learning rate of 0.1, without clip or decay."""
    cfg = TrainConfig(steps=1, batch=1, learning_rate=1.0, optimizer=kind)
    rates = {"clip": jnp.float32(1e9), "weight_decay": jnp.float32(0), "logit_rate": jnp.float32(logit_rate)}
    rule = optimizer(cfg, jnp.float32(0.1), **rates)
    weights = jax.tree.map(jnp.ones_like, gradients[0])
    state, updates, move = jax.jit(rule.init)(weights), [], jax.jit(rule.update)
    for gradient in gradients:
        update, state = move(gradient, state, weights)
        updates.append(update)
    return updates


def tree(seed: int, cfg: DecoderConfig = MODEL) -> Decoder:
    """A decoder whose every weight is a standard normal number."""
    p = drawn(lambda: init_decoder(jax.random.key(0), cfg, sink_logit=0.0))
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(np.float32(rng.standard_normal(leaf.shape))), p)


@functools.cache
def muon_update() -> Decoder:
    return steps(Muon(), [tree(0)])[0]


def test_sgd_moves_against_the_sum_of_decayed_gradients():
    first, second = steps(Sgd(momentum=0.9), gradients := [tree(0), tree(1)])
    np.testing.assert_allclose(first.blocks.query, -0.1 * gradients[0].blocks.query, rtol=1e-5)
    expected = -0.1 * (0.9 * gradients[0].blocks.query + gradients[1].blocks.query)
    np.testing.assert_allclose(second.blocks.query, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "spared"),
    [
        ({"position_bias": Fire()}, {"log_c", "log_threshold"}),
        ({"position_bias": Kerple()}, {"scale", "shape"}),
        ({"polar": True}, {"phase"}),
        ({"key_bias": True, "biases": ("query", "feedforward")}, set()),
        ({"layer_norm": True, "scalable_softmax": True}, {"bias", "length_scale"}),
    ],
)
def test_decay_spares_norms_logits_logarithms_and_angles(changes, spared):
    """Without a gradient a step of SGD multiplies what decays by 1 - η λ."""
    cfg = replace(MODEL, learned_positions=0, block=replace(MODEL.block, **changes))
    weights = jax.tree.map(jnp.ones_like, drawn(lambda: init_decoder(jax.random.key(0), cfg, sink_logit=0.0)))
    rates = {"clip": jnp.float32(1e9), "weight_decay": jnp.float32(0.5), "logit_rate": jnp.float32(1)}
    rule = optimizer(TrainConfig(steps=1, batch=1, learning_rate=1.0, optimizer=Sgd()), jnp.float32(0.1), **rates)
    nothing = jax.tree.map(jnp.zeros_like, weights)
    updates, _ = rule.update(nothing, rule.init(weights), weights)
    shrunk = jax.tree_util.tree_leaves_with_path(updates)
    kept = {path[-1].name for path, update in shrunk if not update.any()}
    assert kept == {"scale", "sink_logit"} | spared
    assert all(np.allclose(update, -0.05) for _, update in shrunk if update.any())


@pytest.mark.parametrize(("name", "rows"), [("query", 8), ("key", 8), ("value", 8), ("output", 8), ("up", 8), ("down", 12)])
def test_muon_makes_every_matrix_of_every_layer_nearly_orthogonal(name, rows):
    """All singular values of an update within what five Newton-Schulz steps give; heads are columns of one matrix."""
    update = muon_update()
    leaf = getattr(update.blocks, name, None)
    leaf = getattr(update.blocks.feedforward, name) if leaf is None else leaf
    for layer in np.asarray(leaf, np.float64):
        matrix = layer.reshape(rows, -1)
        sizes = np.linalg.svd(matrix, compute_uv=False) / (0.1 * UPDATE_SIZE * np.sqrt(max(matrix.shape)))
        assert 0.4 < sizes.min() <= sizes.max() < 1.4


def test_muon_takes_each_expert_by_itself_and_no_bias_or_router():
    cfg = replace(MODEL, block=replace(MODEL.block, experts=3, biases=("feedforward",)))
    gradient = tree(0, cfg)
    update: Any = steps(Muon(), [gradient])[0].blocks.feedforward
    nadam: Any = optax.nadam(0.1, b1=0.9, b2=0.95)
    of: Any = gradient.blocks.feedforward
    expected, _ = nadam.update(of, nadam.init(of))
    for name in ("router", "router_bias"):
        np.testing.assert_allclose(getattr(update, name), getattr(expected, name), rtol=1e-5)
    np.testing.assert_allclose(update.networks.up_bias, expected.networks.up_bias, rtol=1e-5)
    for matrix in np.asarray(update.networks.up, np.float64).reshape(-1, 8, 12):
        sizes = np.linalg.svd(matrix, compute_uv=False) / (0.1 * UPDATE_SIZE * np.sqrt(12))
        assert 0.4 < sizes.min() <= sizes.max() < 1.4


def test_muon_leaves_embeddings_positions_and_norms_to_nadam():
    gradient, update = tree(0), muon_update()
    nadam: Any = optax.nadam(0.1, b1=0.9, b2=0.95)
    expected, _ = nadam.update(gradient, nadam.init(gradient))
    np.testing.assert_allclose(update.embedding, expected.embedding, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(update.positions), expected.positions, rtol=1e-5)
    np.testing.assert_allclose(update.blocks.attention_norm.scale, expected.blocks.attention_norm.scale, rtol=1e-5)


@pytest.mark.parametrize("kind", [AdamW(), Sgd()])
def test_the_rate_of_the_logit_multiplies_its_steps_alone(kind):
    (once,), (twice,) = steps(kind, [tree(0)]), steps(kind, [tree(0)], logit_rate=2.0)
    np.testing.assert_allclose(twice.blocks.sink_logit, 2 * once.blocks.sink_logit, rtol=1e-6)
    np.testing.assert_array_equal(twice.blocks.query, once.blocks.query)
