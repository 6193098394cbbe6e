"""One model's training: its state, its values, and the step.

`leadline.experiments.training.loop` runs many of them in one program.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jaxtyping import Array, Bool, Float, Int, UInt

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import sink_logits
from leadline.experiments.config.to_optimizer import Tree, optimizer
from leadline.experiments.config.train import Cosine, InverseSquareRoot, TrainConfig, WarmupStableDecay
from leadline.experiments.data.sample import Sample
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.decoder_loss import decoder_loss
from leadline.model.encoder_decoder import init_model, model_layers
from leadline.model.positions.tables import PositionTables


@struct.dataclass
class TrainState:
    params: Decoder
    optimizer: Any  # what optax keeps


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Values:
    """What distinguishes the members of one compiled program."""

    tables: PositionTables  # of training windows
    sink_logit: Float[Array, "*A L"]  # of each layer, at the start
    text: Int[Array, "*A"]  # which of a group's held-out texts a point of the curves is measured on
    measured: dict[int, PositionTables]  # of those texts, by their tokens
    logit_rate: Float[Array, "*A"]  # times the learning rate is that of the sink logit; 0 keeps it
    weight_decay: Float[Array, "*A"]
    clip: Float[Array, "*A"]


def values_of(
    model: ModelConfig,
    train: TrainConfig,
    tables: PositionTables,
    text: int = 0,
    measured: Mapping[int, PositionTables] | None = None,
) -> Values:
    """The values of one member of a program, on the host.

    Args:
        model: its mechanisms.
        train: its optimiser.
        tables: its positions and attention hyperparameters in training, one row per layer.
        text: which of the held-out texts of its group it is measured on.
        measured: the tables of these texts, by their tokens; None for a program that only trains.
    """
    logits, rate = sink_logits(model)
    return Values(
        tables=tables,
        sink_logit=jnp.asarray(logits),
        text=jnp.int32(text),
        measured=dict(measured or {}),
        logit_rate=jnp.float32(rate),
        weight_decay=jnp.float32(train.weight_decay),
        clip=jnp.float32(train.clip),
    )


def init_state(seed: UInt[Array, ""], values: Values, model: DecoderConfig, cfg: TrainConfig) -> TrainState:
    """Weights from the seed, moments zero. Needs a mesh."""
    return started(init_model(jax.random.key(seed), model, sink_logit=values.sink_logit), values, cfg)


def started(params: Decoder, values: Values, cfg: TrainConfig) -> TrainState:
    """The state before the first step of these weights."""
    tree: Tree = params
    return TrainState(params=params, optimizer=_optimizer(values, cfg, jnp.float32(0)).init(tree))


def _optimizer(values: Values, cfg: TrainConfig, learning_rate: Float[Array, ""]) -> optax.GradientTransformation:
    rates = {"weight_decay": values.weight_decay, "clip": values.clip, "logit_rate": values.logit_rate}
    return optimizer(cfg, learning_rate, **rates)


def train_step(
    state: TrainState, sample: Sample, values: Values, learning_rate: Float[Array, ""], model: DecoderConfig, cfg: TrainConfig
) -> tuple[TrainState, dict[str, Array]]:
    """One step on the mean loss of predicting tokens[:, 1:] from tokens[:, :-1].

    Args:
        state: weights and moments.
        sample: ids [B, T + 1]; where it has weights, the mean over its targets is weighted.
        values: the numbers in which this model differs from the others of its program.
        learning_rate: of this step.
        model: the structure.
        cfg: the optimiser.

    Returns:
        The new state, and "loss" [nats], and what was finite: "finite_layers" [L], the residual stream after each layer, and
        "finite_gradients" [1 + L], of the weights outside of layers and of each layer.
    """
    tokens, weights = sample.tokens, sample.weights

    def loss_of(params: Decoder) -> tuple[Float[Array, ""], Bool[Array, " L"]]:
        x, finite = model_layers(
            params, tokens[:, :-1], values.tables, model, measure=lambda trace: jnp.isfinite(trace.residual).all()
        )
        return decoder_loss(params, x, tokens[:, 1:], weights, model, cfg.label_smoothing), finite

    (loss, finite), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    metrics = {"loss": loss, "finite_layers": finite, "finite_gradients": _finite(grads)}
    # A sink logit that is not trained has no gradient, so that the clip does not see it either.
    trained = (values.logit_rate > 0).astype(jnp.float32)

    def of_trained(path: Any, gradient: Array) -> Array:
        return gradient * trained if path[-1].name == "sink_logit" else gradient

    grads: Tree = jax.tree_util.tree_map_with_path(of_trained, grads)
    params: Tree = state.params
    updates, moments = _optimizer(values, cfg, learning_rate).update(grads, state.optimizer, params)
    params = optax.apply_updates(params, updates)
    return TrainState(params=params, optimizer=moments), metrics


def _finite(gradients: Decoder) -> Bool[Array, " L_and_1"]:
    """Whether those outside of the layers are finite, and those of each layer."""
    outside = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(replace(gradients, blocks=None))]
    layers = [jnp.isfinite(leaf).all(tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(gradients.blocks)]
    return jnp.concatenate([jnp.stack(outside).all(keepdims=True), jnp.stack(layers).all(axis=0)])


def first_not_finite(loss: float | np.generic | np.ndarray, layers: np.ndarray, gradients: np.ndarray) -> str | None:
    """What went non-finite first in a step of one member, from its metrics; None where nothing did.

    The forward pass goes from the first layer to the last, and the backward pass the other way.
    """
    if not np.isfinite(loss):
        return f"layer {layers.argmin() + 1}" if not layers.all() else "the logits"
    if gradients.all():
        return None
    last = np.flatnonzero(~gradients)[-1]
    return f"the gradient of layer {last}" if last else "the gradient outside of the layers"


def learning_rates(cfg: TrainConfig) -> np.ndarray:
    """The learning rate of every step, float32 [steps]: linear warm-up, then constant, or falling in one of three ways."""
    peak, steps, warmup = cfg.learning_rate, cfg.steps, min(cfg.warmup, cfg.steps)
    match cfg.schedule:
        case Cosine(final=final):
            after = optax.cosine_decay_schedule(peak, max(steps - warmup, 1), alpha=final)
        case WarmupStableDecay(decay=decay):
            falling = max(min(math.ceil(decay * steps), steps - warmup), 1)
            stable = max(steps - warmup - falling, 0)
            linear = optax.linear_schedule(peak, 0.0, falling)
            after = optax.join_schedules([optax.constant_schedule(peak), linear], [stable])
        case InverseSquareRoot(after=first):
            after = partial(_inverse_square_root, peak, warmup, first or max(warmup, 1))
        case _:
            after = optax.constant_schedule(peak)
    # The first step of a warm-up of n is peak / n, not 0: a step that changes nothing would be wasted.
    warm = optax.linear_schedule(peak / max(warmup, 1), peak, max(warmup - 1, 1))
    schedule = optax.join_schedules([warm, after], [warmup])
    return np.asarray(schedule(np.arange(steps, dtype=np.float32)), np.float32)


def _inverse_square_root(peak: float, warmup: int, first: int, n: Any) -> Array:
    """peak · min(1, sqrt(first / s)) of step s = warmup + n + 1 (Vaswani et al. 2017, arXiv:1706.03762, equation 3)."""
    return peak * jnp.sqrt(jnp.minimum(1.0, first / (warmup + n + 1)))
