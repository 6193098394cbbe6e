"""One model's training: its state, its values, the step, and the optimisers, as optax has them, on trees of stacked weights.

`experiments.training.plan` runs many of them in one program.
"""

import math
from functools import partial
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, UInt
from optax.contrib import MuonDimensionNumbers, muon

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import sink_logit
from leadline.experiments.config.train import Cosine, InverseSquareRoot, Muon, Sgd, TrainConfig, WarmupStableDecay
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.perplexity import mean_loss
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.embedding import token_losses
from leadline.model.encoder_decoder import apply_model, init_model
from leadline.model.positions.tables import PositionTables

# Of weights, gradients or moments, as optax sees them.
Tree = Any
# Fields of weight trees that decay never shrinks.
UNDECAYED = frozenset({"scale", "bias", "sink_logit", "length_scale"})
# Root mean square of Muon's updates (Liu et al. 2025, arXiv 2502.16982): that of AdamW's, so that both take the same learning
# rates and decay.
UPDATE_SIZE = 0.2


@struct.dataclass
class TrainState:
    params: Decoder
    optimizer: Any  # what optax keeps


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Values:
    """What distinguishes the members of one compiled program."""

    tables: PositionTables
    sink_logit: Float[Array, "*A"]  # at the start
    text: Int[Array, "*A"]  # which of a group's held-out texts a point of the curves is measured on
    logit_rate: Float[Array, "*A"]  # times the learning rate is that of the sink logit; 0 keeps it
    weight_decay: Float[Array, "*A"]
    clip: Float[Array, "*A"]


def values_of(model: ModelConfig, train: TrainConfig, tables: PositionTables, text: int = 0) -> Values:
    """The values of one member of a program, on the host.

    Args:
        model: its mechanisms.
        train: its optimiser.
        tables: its positions and attention hyperparameters, one row per layer.
        text: which of the held-out texts of its group it is measured on.
    """
    logit, rate = sink_logit(model)
    return Values(
        tables=tables,
        sink_logit=jnp.float32(logit),
        text=jnp.int32(text),
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
    return TrainState(params=params, optimizer=optimizer(values, cfg, jnp.float32(0)).init(tree))


def train_step(
    state: TrainState, sample: Sample, values: Values, learning_rate: Float[Array, ""], model: DecoderConfig, cfg: TrainConfig
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    """One step on the mean loss of predicting tokens[:, 1:] from tokens[:, :-1].

    Args:
        state: weights and moments.
        sample: ids [B, T + 1]; where it has weights, the mean over its targets is weighted.
        values: the numbers in which this model differs from the others of its program.
        learning_rate: of this step.
        model: the structure.
        cfg: the optimiser.

    Returns:
        The new state, and "loss" [nats] and "gradient_norm" before the clip.
    """
    tokens, weights = sample.tokens, sample.weights

    def loss_of(params: Decoder) -> Float[Array, ""]:
        scores, _ = apply_model(params, tokens[:, :-1], values.tables, model)
        return mean_loss(token_losses(scores, tokens[:, 1:], cfg.label_smoothing), weights)

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    # A sink logit that is not trained has no gradient, so that the clip does not see it either.
    trained = (values.logit_rate > 0).astype(jnp.float32)

    def of_trained(path: Any, gradient: Array) -> Array:
        return gradient * trained if path[-1].name == "sink_logit" else gradient

    grads: Tree = jax.tree_util.tree_map_with_path(of_trained, grads)
    params: Tree = state.params
    updates, moments = optimizer(values, cfg, learning_rate).update(grads, state.optimizer, params)
    params = optax.apply_updates(params, updates)
    return TrainState(params=params, optimizer=moments), {"loss": loss, "gradient_norm": optax.tree.norm(grads)}


def learning_rates(cfg: TrainConfig) -> np.ndarray:
    """The learning rate of every step, float32 [steps]: linear warm-up, then constant, or falling in one of three ways."""
    peak, steps, warmup = cfg.learning_rate, cfg.steps, min(cfg.warmup, cfg.steps)
    match cfg.schedule:
        case Cosine(final=final):
            after = optax.cosine_decay_schedule(peak, max(steps - warmup, 1), alpha=final)
        case WarmupStableDecay(decay=decay):
            falling = max(math.ceil(decay * steps), 1)
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


def optimizer(values: Values, cfg: TrainConfig, learning_rate: Float[Array, ""]) -> optax.GradientTransformation:
    """w <- w - η (d(g') + λ w), where g' is the gradient clipped to a global norm and d the direction of the optimiser.

    The decay λ is decoupled (Loshchilov and Hutter 2019, arXiv 1711.05101) and that of matrices only.

    Args:
        values: the largest global norm of the gradient, λ, and the factor of η for sink logits.
        cfg: which optimiser, and its moments.
        learning_rate: η.
    """

    def decayed(path: Any, update: Array, weight: Array) -> Array:
        name = path[-1].name
        update = update * values.logit_rate if name == "sink_logit" else update
        return update if name in UNDECAYED else update + values.weight_decay * weight

    return optax.chain(
        optax.clip_by_global_norm(values.clip),  # pyright: ignore[reportArgumentType]  # a traced scalar serves
        _direction(cfg),
        optax.stateless(lambda updates, params: jax.tree_util.tree_map_with_path(decayed, updates, params)),
        optax.scale_by_learning_rate(learning_rate),
    )


def _direction(cfg: TrainConfig) -> optax.GradientTransformation:
    """The direction of Adam, of SGD, or of Muon (Jordan et al. 2024): then NAdam trains what is no matrix of a block."""
    match cfg.optimizer:
        case Sgd(momentum=momentum):
            return optax.trace(decay=momentum)
        case Muon(momentum=momentum):
            adam = {"adam_b1": cfg.beta1, "adam_b2": cfg.beta2, "eps": cfg.epsilon}
            descent = muon(1.0, beta=momentum, consistent_rms=UPDATE_SIZE, muon_weight_dimension_numbers=_matrices, **adam)  # pyright: ignore[reportArgumentType]
            return _on_whole_weights(optax.chain(descent, optax.scale(-1.0)))
        case _:
            return optax.scale_by_adam(b1=cfg.beta1, b2=cfg.beta2, eps=cfg.epsilon)


def _matrices(params: Tree) -> Tree:
    """Which axes of the blocks' stacked weights are the rows and columns of a matrix; None for what is no such weight."""

    def axes(path: Any, leaf: Array) -> MuonDimensionNumbers | None:  # noqa: ARG001
        match [key.name for key in path]:
            case [*_, "blocks" | "cross", "query" | "key" | "value"]:
                return MuonDimensionNumbers(reduction_axis=1, output_axis=(2, 3))
            case [*_, "blocks" | "cross", "output"]:
                return MuonDimensionNumbers(reduction_axis=(1, 2), output_axis=3)
            case [*_, "blocks", "feedforward", _]:
                return MuonDimensionNumbers(reduction_axis=1, output_axis=2)
            case _:
                return None

    return jax.tree_util.tree_map_with_path(axes, params)


def _on_whole_weights(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """`inner` on unsharded weights: the products of Muon's iteration run over both axes of every matrix."""

    def whole(tree: Tree) -> Tree:
        return jax.tree.map(lambda leaf: jax.reshard(leaf, P(*[None] * leaf.ndim)), tree)

    def update(updates: Tree, state: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        steps, state = inner.update(whole(updates), state, whole(params))
        return jax.tree.map(lambda step, update: jax.reshard(step, jax.typeof(update).sharding.spec), steps, updates), state

    return optax.GradientTransformation(lambda params: inner.init(whole(params)), update)
