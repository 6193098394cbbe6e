"""The optimisers of a training, as optax has them, on trees of stacked weights."""

from typing import Any

import jax
import optax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float
from optax.contrib import MuonDimensionNumbers, muon

from leadline.experiments.config.train import Muon, Sgd, TrainConfig

# Of weights, gradients or moments, as optax sees them.
Tree = Any
# Fields of weight trees that decay never shrinks: scales and biases of norms, logits, and the logarithms and angles of position
# encodings (KERPLE, FIRE, PoPE), whose 0 is no neutral value.
UNDECAYED = frozenset({"scale", "bias", "sink_logit", "length_scale", "shape", "log_c", "log_threshold", "phase"})
# Root mean square of Muon's updates (Liu et al. 2025, arXiv 2502.16982): that of AdamW's, so that both take the same learning
# rates and decay.
UPDATE_SIZE = 0.2


def optimizer(
    cfg: TrainConfig,
    learning_rate: Float[Array, ""],
    *,
    weight_decay: Float[Array, ""],
    clip: Float[Array, ""],
    logit_rate: Float[Array, ""],
) -> optax.GradientTransformation:
    """w <- w - η (d(g') + λ w), where g' is the gradient clipped to a global norm and d the direction of the optimiser.

    The decay λ is decoupled (Loshchilov and Hutter 2019, arXiv 1711.05101). It acts on all weights but
    UNDECAYED: on key biases and on the biases of products too.

    Args:
        cfg: which optimiser, and its moments.
        learning_rate: η.
        weight_decay: λ.
        clip: the largest global norm of the gradient.
        logit_rate: factor of η for sink logits.
    """

    def decayed(path: Any, update: Array, weight: Array) -> Array:
        name = path[-1].name
        update = update * logit_rate if name == "sink_logit" else update
        return update if name in UNDECAYED else update + weight_decay * weight

    return optax.chain(
        optax.clip_by_global_norm(clip),  # pyright: ignore[reportArgumentType]  # a traced scalar serves
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
            case [*_, "blocks", "feedforward", "up" | "gate" | "down"]:
                return MuonDimensionNumbers(reduction_axis=1, output_axis=2)
            case [*_, "blocks", "feedforward", "networks", "up" | "gate" | "down"]:  # each expert has its own
                return MuonDimensionNumbers(reduction_axis=2, output_axis=3)
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
