"""What training does to the rows of an embedding: gradients of a model, and steps of the optimiser that trains models."""

import dataclasses
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_optimizer import optimizer
from leadline.experiments.config.to_tables import tables
from leadline.experiments.config.train import TrainConfig
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, init_decoder
from leadline.model.embedding import embed, token_losses

Unembedding = Literal["tied", "own"]
SEED = 0  # of the weights


def plain_model(width: int, unembedding: Unembedding) -> ModelConfig:
    """Two layers of a decoder with RoPE."""
    return ModelConfig(layers=2, width=width, heads=4, tied=unembedding == "tied", position=Rope(base=10000.0))


def drawn_weights(width: int, vocabulary: int, unembedding: Unembedding, tokens: int) -> Decoder:
    """The weights of `plain_model` at the start of a training."""
    return _drawn(decoder_config(plain_model(width, unembedding), vocabulary, tokens))


@partial(jax.jit, static_argnames="cfg")
def _drawn(cfg: DecoderConfig) -> Decoder:
    return init_decoder(jax.random.key(SEED), cfg)


def half_of_the_ids(vocabulary: int, tokens: int) -> Int[np.ndarray, " tokens"]:
    """A text whose ids are all even: ids that it does not have are there in any case."""
    return 2 * (np.arange(tokens) ** 2 % ((vocabulary + 1) // 2)).astype(np.int32)


@partial(jax.jit, static_argnames=("model", "vocabulary"))
def mean_loss(p: Decoder, ids: Int[Array, " tokens"], model: ModelConfig, vocabulary: int) -> Float[Array, ""]:
    """The loss of predicting each token of a text from those before it [nats]."""
    length = ids.shape[0] - 1
    scores, _ = apply_decoder(p, ids[None, :-1], tables(model, length), decoder_config(model, vocabulary, length))
    return jnp.mean(token_losses(scores, ids[None, 1:]))


def away_from_one_hot(width: int, vocabulary: int, tokens: int) -> float:
    """The largest difference between rows that are looked up and products of one-hot vectors with the table."""
    table, ids = drawn_weights(width, vocabulary, "own", tokens).embedding, half_of_the_ids(vocabulary, tokens)
    products = np.eye(vocabulary)[ids] @ np.asarray(table, np.float64)
    return float(np.abs(np.asarray(embed(table, jnp.asarray(ids)[None], scaled=False))[0] - products).max())


def row_gradients(
    width: int, vocabulary: int, tokens: int, unembedding: Unembedding
) -> tuple[Float[np.ndarray, " V"], Bool[np.ndarray, " V"]]:
    """The length of the gradient of each row of the embedding, and whether an input of the text looks the row up."""
    ids, model = half_of_the_ids(vocabulary, tokens), plain_model(width, unembedding)
    p = drawn_weights(width, vocabulary, unembedding, tokens)
    gradients = jax.jit(jax.grad(lambda p: mean_loss(p, jnp.asarray(ids), model, vocabulary)))(p)
    lengths = np.linalg.norm(np.asarray(gradients.embedding, np.float64), axis=-1)
    return lengths, np.isin(np.arange(vocabulary), ids[:-1])


def trained_rows(
    rows: Float[np.ndarray, "V D"], gradients: Float[np.ndarray, "steps V"], cfg: TrainConfig
) -> Float[np.ndarray, "steps V D"]:
    """The rows of an embedding after each step of the optimiser, which clips nothing.

    Args:
        rows: at the start.
        gradients: of every channel of a row at each step; 0 where no token looks the row up.
        cfg: optimiser, learning rate and decay.
    """
    p = drawn_weights(rows.shape[1], len(rows), "own", 1)
    start: Any = dataclasses.replace(jax.tree.map(jnp.zeros_like, p), embedding=jnp.asarray(rows, jnp.float32))
    return np.asarray(_after_each(start, jnp.asarray(gradients, jnp.float32), cfg), np.float64)


@partial(jax.jit, static_argnames="cfg")
def _after_each(start: Any, gradients: Float[Array, "steps V"], cfg: TrainConfig) -> Float[Array, "steps V D"]:
    rates = {"weight_decay": jnp.float32(cfg.weight_decay), "clip": jnp.float32(np.inf), "logit_rate": jnp.float32(0)}
    rule = optimizer(cfg, jnp.float32(cfg.learning_rate), **rates)
    zero: Any = jax.tree.map(jnp.zeros_like, start)

    def step(state: tuple[Any, Any], gradient: Float[Array, " V"]) -> tuple[tuple[Any, Any], Float[Array, "V D"]]:
        weights, moments = state
        tree: Any = dataclasses.replace(zero, embedding=jnp.tile(gradient[:, None], (1, start.embedding.shape[1])))
        updates, moments = rule.update(tree, moments, weights)
        weights: Any = optax.apply_updates(weights, updates)
        return (weights, moments), weights.embedding

    return jax.lax.scan(step, (start, rule.init(start)), gradients)[1]


def untouched(width: int, cfg: TrainConfig, start: float) -> float:
    """The largest channel, after all steps, of a row that has a gradient of 0 at each; the other row has one at each step.

    Args:
        width: of the row.
        cfg: the optimiser.
        start: every channel of the row at the start.
    """
    rows = np.stack([np.ones(width), np.full(width, start)])
    gradients = np.stack([np.ones(cfg.steps), np.zeros(cfg.steps)], axis=1)
    return float(np.abs(trained_rows(rows, gradients, cfg)[-1, 1]).max())


def moved_afterwards(width: int, cfg: TrainConfig, step: int) -> float:
    """How far a row moves after the only step at which it has a gradient, over how far it moves in this step.

        m_t = (1 - β1) β1^(t-s) g,   v_t = (1 - β2) β2^(t-s) g²      at step t from the step s of the gradient g on
        Δ_t = η m_t / (1 - β1^t) / sqrt(v_t / (1 - β2^t))            (Kingma and Ba 2015, arXiv:1412.6980, Algorithm 1)

    For s → ∞ the sum of all later steps is r / (1 - r) times that of step s, r = β1 / sqrt(β2).

    Args:
        width: of the row.
        cfg: the optimiser, without decay.
        step: of the gradient, from 1.
    """
    gradients = np.zeros((cfg.steps, 2))
    gradients[:, 0], gradients[step - 1, 1] = 1.0, 1.0
    row = np.concatenate([np.zeros((1, width)), trained_rows(np.zeros((2, width)), gradients, cfg)[:, 1]])
    moves = np.linalg.norm(np.diff(row, axis=0), axis=-1)
    return float(moves[step:].sum() / moves[step - 1])
