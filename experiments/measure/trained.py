"""Statistics of a whole trained model: gradients of its layers, early predictions, attention matrices, and what its losses gain
by interventions: values drained, heads removed, attention forced, tokens hidden."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.evaluate import Statistics, as_rows
from leadline.experiments.measure.perplexity import mean_loss, means_without
from leadline.experiments.records.left_out import without
from leadline.experiments.records.measurement import Point, Reading, reading
from leadline.model.attention.attention import attend
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import Normalizer, Terms
from leadline.model.block import Block, LayerTrace
from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder, blocks_of, unembed
from leadline.model.embedding import token_losses
from leadline.model.intervention import Intervention, no_intervention
from leadline.model.layer import layer_scores
from leadline.model.mesh import axis_size
from leadline.model.positions.tables import PositionTables

# From the losses [nats] of every target and the ids: the mean losses that a kind of data tells apart.
Losses = Callable[[Float[Array, "W T"], Int[Array, "W T_and_1"]], Statistics]
# An intervention, and how many first tokens are hidden besides.
Case = tuple[Intervention, Int[Array, "*cases"]]
# The mean losses that are told apart, and those of each window over its targets from each of (0, *hidden) on.
CaseLosses = tuple[Statistics, Float[Array, "*cases W H_and_1"]]
# What is done to all heads at once: the first token's value becomes 0, or the mean of the others', or all attention is on it.
ALL_HEADS = ("zero_value", "mean_value", "forced")


def gradient_norms(blocks: Any) -> Float[Array, " L"]:
    """The norm of each layer's gradient, sqrt(Σ g²) over its weights; float32.

    Args:
        blocks: a tree of stacked gradients [L, …], such as those of a decoder's blocks.

    Raises:
        ValueError: if the tree is empty or its leaves do not agree on L.
    """
    leaves = jax.tree.leaves(blocks)
    depths = {leaf.shape[:1] for leaf in leaves}
    if len(depths) != 1 or () in depths:
        raise ValueError(f"gradients of stacked layers have one leading axis in common, not {sorted(depths)}")
    squares = [jnp.sum(jnp.square(leaf.astype(jnp.float32)), axis=tuple(range(1, leaf.ndim))) for leaf in leaves]
    return jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))


def loss_gradient_norms(
    params: Decoder, tables: PositionTables, tokens: Int[Array, "B T_and_1"], cfg: DecoderConfig
) -> Float[Array, " L"]:
    """`gradient_norms` of the mean loss of one batch."""

    def loss(weights: Decoder) -> Float[Array, ""]:
        scores, _ = apply_decoder(weights, tokens[:, :-1], tables, cfg)
        return mean_loss(token_losses(scores, tokens[:, 1:]))

    return gradient_norms(jax.grad(loss)(params).blocks)


def early_decoding(
    residuals: Float[Array, "L B T D"], decode: Callable[[Float[Array, "B T D"]], Float[Array, "B T V"]]
) -> Float[Array, " L"]:
    """Divergence of the prediction after each layer from the final one, a mean over tokens [nats]:

        KL(p_L || p_l) = Σ_v p_L(v) (log p_L(v) - log p_l(v)),      p_l = softmax(decode(h_l))

    The logit lens (nostalgebraist 2020), compared with the final prediction. The logits of the last and of one other layer
    exist at once. float32.

    Args:
        residuals: the residual stream after each layer.
        decode: final norm and unembedding, to logits.

    Returns:
        One number per layer, the last of which is 0. A token that the last layer rules out (logit -inf) adds nothing; a token
        that only an earlier layer rules out makes that layer's number infinite.
    """

    def log_probabilities(residual: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        return jax.nn.log_softmax(decode(residual).astype(jnp.float32), axis=-1)

    final = log_probabilities(residuals[-1])

    def divergence(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
        terms = jnp.exp(final) * (final - log_probabilities(residual))
        return jnp.mean(jnp.sum(jnp.where(final > -jnp.inf, terms, 0), axis=-1))

    return jax.lax.map(divergence, residuals)


def early_divergence(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T_and_1"], cfg: DecoderConfig
) -> Float[Array, " L"]:
    """`early_decoding` of a model on the inputs of C batches, a mean over them."""

    def of_batch(tokens: Int[Array, "B T_and_1"]) -> Float[Array, " L"]:
        _, residuals = apply_decoder(params, tokens[:, :-1], tables, cfg, measure=lambda trace: trace.residual)
        return early_decoding(residuals, lambda residual: unembed(params, residual, cfg))

    return jnp.mean(jax.lax.map(of_batch, batches), axis=0)


def attention_maps(params: Decoder, tables: PositionTables, tokens: Int[Array, "B T"], cfg: DecoderConfig) -> Statistics:
    """The attention p_ij [L, N, T, T] of query i to key j in every head, over the first text; float32.

    It is what attention gives where the values are the unit vectors, o_i = Σ_j p_ij e_j, whatever the mechanism. As in the
    statistics, p are shares of the mass (model.attention.normalizers); the sink logit has the rest of a row. Nothing for models
    whose queries each rotate all keys by a table of their own.
    """
    block, T, texts = cfg.block, tokens.shape[1], axis_size("data")  # as many as are sharded, of which one counts
    if block.table_per == "query":
        return {}

    def first_text(trace: LayerTrace) -> tuple[Array, ...]:
        return tuple(jax.reshard(x, P(None, None, None, None))[:texts] for x in (trace.query, trace.key) if x is not None)

    _, (query, key) = apply_decoder(params, tokens, tables, cfg, measure=first_text)
    unit_vectors = jnp.tile(jnp.eye(T)[None, :, None], (texts, 1, block.kv_heads, 1))

    def of_layer(row: tuple[Array, Array, Block, PositionTables]) -> Float[Array, "N T T"]:
        query, key, weights, table = row
        scores = layer_scores(weights, table, block, query, Context())
        scores = scores._replace(value_bias=None, normalizer=partial(_of_mass, scores.normalizer))
        shares, _ = attend(query, key, unit_vectors, Mask(table.window, table.initial_tokens, chunk=table.chunk), scores)
        return jnp.swapaxes(jax.reshard(shares, P(None, None, None, None))[0], 0, 1)

    return {reading("attention_map"): jax.lax.map(of_layer, (query, key, blocks_of(params), tables))}


def _of_mass(normalizer: Normalizer, scores: Array, sink_logit: Array) -> Terms:
    terms = normalizer(scores, sink_logit)
    return terms._replace(total=terms.mass)


def interventions(cfg: DecoderConfig, *, heads: bool = True) -> Intervention:
    """No intervention, those of ALL_HEADS, then each head removed by itself if `heads`: rows [1 + 3 + L · N, L, …]."""
    L, N, K = cfg.layers, cfg.block.heads, cfg.block.kv_heads
    none = no_intervention(L, N, K)
    zeros, ones = jnp.zeros((L, K)), jnp.ones((L, K))
    together = (
        none,
        replace(none, first_value=zeros),
        replace(none, first_value=zeros, mean_value=ones),
        replace(none, forced=jnp.ones((L, N))),
    )
    rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *together)
    if not heads:
        return rows
    each = jax.tree.map(lambda leaf: jnp.tile(leaf[None], (L * N, 1, 1)), none)
    removed = replace(each, head=1 - jnp.eye(L * N).reshape(L * N, L, N))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), rows, removed)


def loss_cases(cfg: DecoderConfig, hidden: tuple[int, ...], *, heads: bool = True) -> Case:
    """The rows of `interventions`, then for each number of `hidden` a row that only hides so many first tokens: [cases, …]."""
    alone = interventions(cfg, heads=heads)
    rows = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.tile(leaf[:1], (len(hidden), 1, 1))]), alone)
    return rows, jnp.array([0] * alone.head.shape[0] + list(hidden))


def case_losses(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T_and_1"],
    cfg: DecoderConfig,
    losses: Losses,
    hidden: tuple[int, ...],
    case: Case,
) -> CaseLosses:
    """The losses of one case.

    Args:
        params: the weights.
        tables: of the texts' length.
        batches: ids.
        cfg: the structure.
        losses: which losses are told apart.
        hidden: H numbers of tokens, for the means over later targets.
        case: an intervention, and how many first tokens are hidden.

    Returns:
        The mean losses that are told apart, and the mean loss [nats] of each window over its targets from each of (0, *hidden)
        on.
    """
    intervention, count = case

    def of_batch(tokens: Int[Array, "B T_and_1"]) -> Float[Array, "B T"]:
        ids = tokens[:, :-1]
        seen = jnp.broadcast_to(jnp.arange(ids.shape[1])[None] >= count, ids.shape)
        padding = jax.reshard(seen, P("data", None))
        scores, _ = apply_decoder(params, ids, tables, cfg, context=Context(padding=padding, intervention=intervention))
        return jax.reshard(token_losses(scores, tokens[:, 1:]), P(None, None))

    values = as_rows(jax.lax.map(of_batch, batches))
    of_windows = jnp.stack([jnp.mean(values[:, first:], axis=1) for first in (0, *hidden)], axis=1)
    return losses(values, as_rows(batches)), of_windows


def loss_gains(
    of_cases: tuple[Point, Float[np.ndarray, "cases W H_and_1"]],
    cfg: DecoderConfig,
    hidden: tuple[int, ...],
    groups: Int[np.ndarray, " W"] | None = None,
) -> Point:
    """The gain of each loss [nats] by each intervention, from the stacked `case_losses` of `loss_cases`.

    Interventions are those of ALL_HEADS, each head removed by itself where there are such cases, and for each of the numbers
    `hidden` so many first tokens hidden from all others.

    Args:
        of_cases: losses that are told apart [cases], and those of windows [cases, W, H + 1].
        cfg: the structure.
        hidden: H numbers of tokens.
        groups: of held-out documents, that of each window; None for a task, or where documents are too few.

    Returns:
        `loss_change` [] with the dimension `intervention`, and `head_removed` [L, N]; both with `of` for losses other than
        `loss`. Of hidden tokens the loss counts over the targets of the queries after them, with the dimension `tokens`. With
        groups, `loss_change` of `loss` without each of them too.
    """
    means, of_windows = of_cases
    alone, together = len(of_windows) - len(hidden), 1 + len(ALL_HEADS)
    changes: Point = {}
    for (name, dims), value in means.items():
        added, of = value - value[0], {} if name == "loss" else {"of": name}
        for row, intervention in enumerate(ALL_HEADS, start=1):
            changes[Reading("loss_change", dims).at(intervention=intervention, **of)] = np.asarray(added[row])
        if alone > together:
            changes[Reading("head_removed", dims).at(**of)] = added[together:alone].reshape(cfg.layers, cfg.block.heads)
    gains = of_windows - of_windows[:1]
    whole = {reading("loss_change", intervention=name): gains[1 + i, :, 0] for i, name in enumerate(ALL_HEADS)}
    after = {
        reading("loss_change", intervention="hidden", tokens=count): gains[alone + i, :, 1 + i]
        for i, count in enumerate(hidden)
    }
    changes |= {key: np.asarray(of_window.mean()) for key, of_window in after.items()}
    if groups is not None:
        changes |= {without(key): means_without(of_window, groups)[1:] for key, of_window in (whole | after).items()}
    return changes
