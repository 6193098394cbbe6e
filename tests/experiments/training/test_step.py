"""Schedules against closed forms, and one step against optax."""

import dataclasses
import math
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from leadline.experiments.config.attention import FixedSink, LearnedSink, NoSink, Sink
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config, sink_logits
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import Constant, Cosine, InverseSquareRoot, Schedule, TrainConfig, WarmupStableDecay
from leadline.experiments.data.sample import Sample
from leadline.experiments.training.step import (
    TrainState,
    Values,
    first_not_finite,
    init_state,
    learning_rates,
    train_step,
    values_of,
)
from leadline.model.decoder import Decoder, apply_decoder
from leadline.model.embedding import token_losses

V, T = 13, 8
step = jax.jit(train_step, static_argnames=("model", "cfg"))

pytestmark = pytest.mark.usefixtures("in_use", "mesh")


def _train(schedule: Schedule, steps: int = 100, warmup: int = 10) -> TrainConfig:
    values = {"learning_rate": 0.5, "weight_decay": 0.3, "clip": 0.05}
    return TrainConfig.model_validate({"steps": steps, "batch": 3, "schedule": schedule, "warmup": warmup} | values)


WARMING = np.arange(1, 11) / 10
DOWN = 1 - np.arange(20) / 20
HALF_A_WAVE = 0.1 + 0.9 * (1 + np.cos(np.pi * np.arange(90) / 90)) / 2
SCHEDULES = {
    "a warm-up that ends at the peak and wastes no step": (_train(Constant()), [WARMING, np.ones(90)]),
    "no warm-up": (_train(Constant(), warmup=0), [np.ones(100)]),
    "a warm-up longer than the run": (_train(Constant(), steps=4, warmup=50), [np.arange(1, 5) / 4]),
    "half a wave": (_train(Cosine(final=0.1)), [WARMING, HALF_A_WAVE]),
    "warm up, stay, decay": (_train(WarmupStableDecay(decay=0.2)), [WARMING, np.ones(70), DOWN]),
    "inverse square root": (_train(InverseSquareRoot()), [WARMING, np.sqrt(10 / np.arange(11, 101))]),
    "a peak that stays": (_train(InverseSquareRoot(after=50)), [WARMING, np.ones(40), np.sqrt(50 / np.arange(51, 101))]),
    "inverse square root at once": (_train(InverseSquareRoot(), warmup=0), [1 / np.sqrt(np.arange(1, 101))]),
    "a decay over all steps after the warm-up": (_train(WarmupStableDecay(decay=1.0)), [WARMING, 1 - np.arange(90) / 90]),
}


@pytest.mark.parametrize(("cfg", "expected"), SCHEDULES.values(), ids=SCHEDULES)
def test_rates_of_schedules(cfg: TrainConfig, expected: list[np.ndarray]) -> None:
    rates = learning_rates(cfg)
    assert rates.dtype == np.float32
    np.testing.assert_allclose(rates, 0.5 * np.concatenate(expected), rtol=1e-5)


def _prepared(sink: Sink, **changes: Any) -> tuple[ModelConfig, TrainState, Values, TrainConfig]:
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "hidden": 8} | changes
    model = ModelConfig(**sizes, norm="layer", position=Rope(base=100.0), sink=sink, tied=False)
    cfg = _train(Constant())
    values = values_of(model, cfg, tables(model, T))
    state = init_state(jnp.uint32(3), values, decoder_config(model, V, T), cfg)
    # Biases are born 0, which decay would not show.
    return model, dataclasses.replace(state, params=jax.tree.map(lambda leaf: leaf + 0.1, state.params)), values, cfg


def _oracle(state: TrainState, tokens: jax.Array, values: Values, model: ModelConfig, cfg: TrainConfig) -> Decoder:
    """optax.adamw after a clip, on gradients without that of a sink logit that is not trained; only matrices decay."""

    def loss(params: Decoder) -> jax.Array:
        scores, _ = apply_decoder(params, tokens[:, :-1], values.tables, decoder_config(model, V, T))
        return jnp.mean(token_losses(scores, tokens[:, 1:]))

    grads = jax.grad(loss)(state.params)
    leaves, tree = jax.tree.flatten(grads)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(grads)]
    if not sink_logits(model)[1]:
        leaves = [jnp.zeros_like(leaf) if "sink_logit" in name else leaf for name, leaf in zip(names, leaves, strict=True)]
    mask = [not any(part in name for part in ("norm", "sink_logit")) for name in names]
    adamw = optax.chain(
        optax.clip_by_global_norm(cfg.clip),
        optax.adamw(0.01, b1=cfg.beta1, b2=cfg.beta2, eps=cfg.epsilon, weight_decay=cfg.weight_decay, mask=mask),
    )
    weights: Any = jax.tree.leaves(state.params)
    updates, _ = adamw.update(leaves, adamw.init(weights), weights)
    new: Any = optax.apply_updates(weights, updates)
    return jax.tree.unflatten(tree, new)


def _momentum(state: TrainState) -> float:
    """The norm of Adam's first moments; after one step 1 - β₁ times that of the clipped gradient."""
    return float(optax.tree.norm(state.optimizer[1].mu))


@pytest.mark.parametrize(
    "sink", [pytest.param(FixedSink(logit=0.0), marks=pytest.mark.slow), LearnedSink()], ids=["fixed", "learned"]
)
def test_a_step_is_adamw_with_a_mask(sink: Sink) -> None:
    model, state, values, cfg = _prepared(sink)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, V, (3, T + 1)), jnp.int32)
    after, _ = step(state, Sample(tokens), values, jnp.float32(0.01), decoder_config(model, V, T), cfg)
    assert _momentum(after) == pytest.approx((1 - cfg.beta1) * cfg.clip, rel=1e-5)  # the clip is at work
    expected = jax.jit(_oracle, static_argnames=("model", "cfg"))(state, tokens, values, model=model, cfg=cfg)
    chex.assert_trees_all_close(after.params, expected, rtol=1e-5, atol=1e-6)
    moved = not np.array_equal(after.params.blocks.sink_logit, state.params.blocks.sink_logit)
    assert moved == isinstance(sink, LearnedSink)


def test_layers_without_a_sink_stay_without_one_beside_those_that_learn_theirs() -> None:
    changes = {"layers": 2, "window": 4, "windowed": (False, True), "window_sink": LearnedSink(logit=0.5)}
    model, state, values, cfg = _prepared(NoSink(), **changes)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, V, (3, T + 1)), jnp.int32)
    after, _ = step(state, Sample(tokens), values, jnp.float32(0.01), decoder_config(model, V, T), cfg)
    before, logits = state.params.blocks.sink_logit, after.params.blocks.sink_logit
    assert np.all(np.asarray(logits[0]) == -np.inf)
    assert np.all(np.isfinite(logits[1]))
    assert np.all(logits[1] != before[1])
    assert np.isfinite(_momentum(after))


def test_a_logit_of_minus_infinity_stays() -> None:
    model, state, values, cfg = _prepared(FixedSink(logit=-math.inf))
    tokens = jnp.zeros((3, T + 1), jnp.int32)
    after, _ = step(state, Sample(tokens), values, jnp.float32(0.01), decoder_config(model, V, T), cfg)
    assert np.all(np.asarray(after.params.blocks.sink_logit) == -np.inf)
    assert np.isfinite(_momentum(after))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(after.params.blocks.query))


def test_weights_choose_the_targets_of_the_loss() -> None:
    """A step on rows of which only the first targets count equals a step on those targets alone."""
    model, state, values, cfg = _prepared(FixedSink(logit=0.0))
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, V, (3, T + 1)), jnp.int32)
    half = T // 2
    weights = jnp.tile((jnp.arange(T) < half).astype(jnp.float32), (3, 1))
    structure = decoder_config(model, V, T)
    weighted, whole = (
        step(state, sample, values, jnp.float32(0.01), structure, cfg)
        for sample in (Sample(tokens, weights), Sample(tokens[:, : half + 1]))
    )
    np.testing.assert_allclose(weighted[1]["loss"], whole[1]["loss"], rtol=1e-6)
    chex.assert_trees_all_close(weighted[0].params, whole[0].params, rtol=1e-4, atol=1e-6)


# Where a value that is not finite is put, and what is said of it: two layers, whose weights are stacked.
NOT_FINITE = {
    "layer 2": ("feedforward.down", 1),
    "layer 1": ("feedforward.down", 0),
    "the logits": ("unembedding", 0),
}


@pytest.mark.parametrize(("first", "place"), NOT_FINITE.items())
def test_a_step_says_which_layer_was_not_finite_first(first: str, place: tuple[str, int]) -> None:
    model, state, values, cfg = _prepared(NoSink(), layers=2)
    tokens = jax.random.randint(jax.random.key(1), (3, T + 1), 0, V)

    def said(state: TrainState) -> str | None:
        _, metrics = step(state, Sample(tokens), values, jnp.float32(0.1), decoder_config(model, V, T), cfg)
        return first_not_finite(*(np.asarray(metrics[key]) for key in ("loss", "finite_layers", "finite_gradients")))

    assert said(state) is None
    (name, row), params = place, cast("Any", state.params)
    put = lambda leaf: leaf.at[row].set(jnp.inf)  # noqa: E731
    if name == "unembedding":
        params = params.replace(unembedding=put(params.unembedding))
    else:
        matrices = params.blocks.feedforward
        params = params.replace(blocks=params.blocks.replace(feedforward=matrices.replace(down=put(matrices.down))))
    assert said(dataclasses.replace(state, params=params)) == first


def test_of_the_gradients_the_last_layer_was_not_finite_first() -> None:
    layers, loss = np.ones(3, bool), np.float32(1.0)
    said = [first_not_finite(loss, layers, np.array(finite, bool)) for finite in ([1, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1])]
    assert said == [None, "the gradient of layer 2", "the gradient outside of the layers"]
