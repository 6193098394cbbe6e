"""A trained model taken apart: what its layers and heads do on held-out text, and what becomes of the loss without them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from experiments.config.study import Arm
from experiments.evaluate import Statistics
from experiments.group import Point
from experiments.measure.gradient import gradient_norms
from experiments.measure.layers import layer_anatomy, layer_statistics
from experiments.measure.lens import early_decoding
from experiments.measure.maps import attention_map
from experiments.measure.perplexity import mean_loss
from experiments.population import in_rounds
from experiments.position_tables import tables as tables_of
from model.block import LayerTrace
from model.decoder import Decoder, DecoderConfig, apply_decoder, decoded
from model.embedding import token_losses
from model.intervention import Intervention, no_intervention
from model.kernels.kernel import weigh
from model.positions.tables import PositionTables
from model.values import AttentionValues

# Of the losses [nats] of every target and the ids: those that a study tells apart.
OfLosses = Callable[[Float[Array, "B T"], Int[Array, "B T+1"]], Statistics]


def anatomy(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    of_losses: OfLosses,
    *,
    token: int,
    epsilon: float,
    start: int,
) -> Statistics:
    """Of every layer and head: sinks, norms, cosines and subspaces of keys, activations, early decoding, gradients.

    `token` and `epsilon` are those of the sink rate; queries and norms count from position `start` on. Means over C batches,
    but of the gradient, which is that of the first one.
    """

    def one(tokens: Int[Array, "B T"]) -> Statistics:
        def of_layer(trace: LayerTrace) -> tuple[Statistics, Float[Array, "B T D"]]:
            found = layer_statistics(trace, token=token, epsilon=epsilon) | layer_anatomy(_whole(trace), start=start)
            return found, trace.residual

        scores, (layers, residuals) = apply_decoder(params, tokens[:, :-1], tables, cfg, measure=of_layer)
        early = early_decoding(residuals, lambda x: decoded(params, x))
        return layers | of_losses(token_losses(scores, tokens[:, 1:]), tokens) | {"early_divergence": early}

    def loss_of(weights: Decoder) -> Float[Array, ""]:
        scores, _ = apply_decoder(weights, batches[0][:, :-1], tables, cfg)
        return mean_loss(token_losses(scores, batches[0][:, 1:]))

    found = jax.tree.map(lambda statistic: jnp.mean(statistic, axis=0), jax.lax.map(one, batches))
    return found | {"gradient_norm": gradient_norms(jax.grad(loss_of)(params).blocks)}


def _whole(trace: LayerTrace) -> LayerTrace:
    """With the queries and keys of all heads on every device of the model axis: statistics regroup them."""

    def gathered(x: Array | None) -> Array | None:
        return None if x is None else jax.reshard(x, P("data", None, None, None))

    return replace(trace, query=gathered(trace.query), key=gathered(trace.key))


CASES = ("zero_value", "mean_value", "forced")  # what `interventions` does to all heads at once, behind the case of nothing


def interventions(cfg: DecoderConfig) -> Intervention:
    """Nothing, `CASES`, then each head removed by itself: rows [1 + 3 + L · N, L, …]."""
    L, N, K = cfg.layers, cfg.block.heads, cfg.block.kv_heads
    none = no_intervention(L, N, K)
    empty, full = jnp.zeros((L, K)), jnp.ones((L, K))
    together = (
        none,
        replace(none, first_value=empty),
        replace(none, first_value=empty, mean_value=full),
        replace(none, forced=jnp.ones((L, N))),
    )
    each = jax.tree.map(lambda leaf: jnp.tile(leaf[None], (L * N, 1, 1)), none)
    removed = replace(each, head=1 - jnp.eye(L * N).reshape(L * N, L, N))
    return jax.tree.map(lambda *rows: jnp.concatenate([jnp.stack(rows[:-1]), rows[-1]]), *together, removed)


def changes(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T"],
    cfg: DecoderConfig,
    of_losses: OfLosses,
    *,
    hidden: tuple[int, ...],
) -> Statistics:
    """What the losses gain [nats] by each intervention: `change_zero_value.loss` … [], `head_removed.loss` [L, N] …

    and by hiding the first n tokens from all others, for each n of `hidden`: `change_hidden4.loss`, of the mean loss over the
    targets of queries n, n + 1, … One forward pass is compiled, and run once for each case.
    """
    own = interventions(cfg)
    nothing = jax.tree.map(lambda leaf: jnp.tile(leaf[:1], (len(hidden), 1, 1)), own)
    own = jax.tree.map(lambda *parts: jnp.concatenate(parts), own, nothing)
    counts = jnp.array([0] * (own.head.shape[0] - len(hidden)) + list(hidden))
    places = jnp.arange(batches.shape[2] - 1)
    later = (places[None] >= jnp.array([0, *hidden])[:, None]).astype(jnp.float32)

    def case(row: tuple[Intervention, Int[Array, ""]]) -> tuple[Statistics, Float[Array, " cases"]]:
        def one(tokens: Int[Array, "B T"]) -> tuple[Statistics, Float[Array, " cases"]]:
            ids = tokens[:, :-1]
            seen = jnp.broadcast_to(jnp.arange(ids.shape[1])[None] >= row[1], ids.shape)
            padding = jax.reshard(seen, P("data", None))
            scores, _ = apply_decoder(params, ids, tables, cfg, padding=padding, intervention=row[0])
            losses = token_losses(scores, tokens[:, 1:])
            position = jnp.mean(losses, axis=0)
            return of_losses(losses, tokens), jnp.sum(position[None] * later, axis=1) / jnp.sum(later, axis=1)

        return jax.tree.map(lambda value: jnp.mean(value, axis=0), jax.lax.map(one, batches))

    found, behind = jax.lax.map(case, (own, counts))
    changed = {}
    for name, value in found.items():
        gained = value - value[0]
        changed |= {f"change_{case}.{name}": gained[i] for i, case in enumerate(CASES, start=1)}
        heads = gained[1 + len(CASES) : len(gained) - len(hidden)]
        changed[f"head_removed.{name}"] = heads.reshape(cfg.layers, cfg.block.heads)
    for i, count in enumerate(hidden):
        row = len(counts) - len(hidden) + i
        changed[f"change_hidden{count}.loss"] = behind[row, 1 + i] - behind[0, 1 + i]
    return changed


def maps(
    params: Decoder, tables: PositionTables, tokens: Int[Array, "B M"], cfg: DecoderConfig
) -> dict[str, Float[Array, "L N M M"]]:
    """The attention of every head over the first text; none where biases or a row before the text add to the scores."""
    block = cfg.block
    if block.position_bias is not None or block.prepended != "none" or block.table_per == "query":
        return {}

    def measure(trace: LayerTrace) -> tuple[Array, ...]:
        return tuple(jax.reshard(x, P(None, None, None, None))[0] for x in (trace.query, trace.key) if x is not None)

    _, (query, key) = apply_decoder(params, tokens, tables, cfg, measure=measure)

    def one(row: tuple[Array, Array, Array, AttentionValues]) -> Float[Array, "N M M"]:
        query, key, extra_logit, values = row
        kernel = weigh(block.kernel, values.clip, values.sigmoid_bias)
        cap = values.cap if block.capped else None
        return attention_map(query, key, extra_logit, kernel, scale=block.head_dim**-0.5, cap=cap)

    extra = jax.reshard(params.blocks.extra_logit, P(None, None))
    return {"attention_map": jax.lax.map(one, (query, key, extra, tables.attention))}


def taken_apart(
    arms: Sequence[Arm],
    params: Sequence[Decoder],
    job: Callable[[Decoder, tuple[Int[Array, ""], PositionTables], Any], Statistics],
    inputs: Any,
    model: DecoderConfig,
    programs: list[str],
    *,
    rows: int,
) -> list[Point]:
    """`job(params, (index of the arm, tables), inputs)` of every trained model, in one program. `rows` are those of a batch."""
    tables = [tables_of(arm.model, arm.original_length, arm.data.length) for arm in arms]
    own = [(weights, (jnp.int32(i), table)) for i, (weights, table) in enumerate(zip(params, tables, strict=True))]
    return in_rounds("anatomy", job, own, inputs, programs, rows, model.block.width)
