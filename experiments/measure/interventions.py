"""What the losses of a trained model gain by interventions: values drained, heads removed, attention forced, tokens hidden."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.evaluate import Statistics, as_rows
from leadline.experiments.records.measurement import Reading, reading
from leadline.model.context import Context
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.intervention import Intervention, no_intervention
from leadline.model.positions.tables import PositionTables

# From the losses [nats] of every target and the ids: the mean losses that a kind of data tells apart.
Losses = Callable[[Float[Array, "W T"], Int[Array, "W T_and_1"]], Statistics]
# What is done to all heads at once: the first token's value becomes 0, or the mean of the others', or all attention is on it.
ALL_HEADS = ("zero_value", "mean_value", "forced")


def interventions(cfg: DecoderConfig) -> Intervention:
    """No intervention, those of ALL_HEADS, then each head removed by itself: rows [1 + 3 + L · N, L, …]."""
    L, N, K = cfg.layers, cfg.block.heads, cfg.block.kv_heads
    none = no_intervention(L, N, K)
    zeros, ones = jnp.zeros((L, K)), jnp.ones((L, K))
    together = (
        none,
        replace(none, first_value=zeros),
        replace(none, first_value=zeros, mean_value=ones),
        replace(none, forced=jnp.ones((L, N))),
    )
    each = jax.tree.map(lambda leaf: jnp.tile(leaf[None], (L * N, 1, 1)), none)
    removed = replace(each, head=1 - jnp.eye(L * N).reshape(L * N, L, N))
    return jax.tree.map(lambda *rows: jnp.concatenate([jnp.stack(rows[:-1]), rows[-1]]), *together, removed)


def loss_changes(
    params: Decoder,
    tables: PositionTables,
    batches: Int[Array, "C B T_and_1"],
    cfg: DecoderConfig,
    losses: Losses,
    hidden: tuple[int, ...],
) -> Statistics:
    """The gain of each loss [nats] by each intervention. One forward pass is compiled, and run once for each.

    Args:
        params: the weights.
        tables: of the positions.
        batches: ids; the targets of row[:-1] are row[1:].
        cfg: the structure.
        losses: the mean losses that are told apart.
        hidden: numbers of first tokens that are hidden from all others, one intervention each.

    Returns:
        `loss_change` [] with the dimension `intervention`, and `head_removed` [L, N]; both with `of` for losses other than
        `loss`. Of hidden tokens the loss counts over the targets of the queries behind them, with the dimension `tokens`.
    """
    nothing, several = interventions(cfg), len(hidden)
    unchanged = jax.tree.map(lambda leaf: jnp.tile(leaf[:1], (several, 1, 1)), nothing)
    cases = jax.tree.map(lambda *parts: jnp.concatenate(parts), nothing, unchanged)
    counts = jnp.array([0] * (cases.head.shape[0] - several) + list(hidden))

    def run(case: tuple[Intervention, Int[Array, ""]]) -> tuple[Statistics, Float[Array, " T"]]:
        intervention, count = case

        def of_batch(tokens: Int[Array, "B T_and_1"]) -> Float[Array, "B T"]:
            ids = tokens[:, :-1]
            seen = jnp.broadcast_to(jnp.arange(ids.shape[1])[None] >= count, ids.shape)
            padding = jax.reshard(seen, P("data", None))
            scores, _ = apply_decoder(params, ids, tables, cfg, context=Context(padding=padding, intervention=intervention))
            return jax.reshard(token_losses(scores, tokens[:, 1:]), P(None, None))

        values = as_rows(jax.lax.map(of_batch, batches))
        return losses(values, as_rows(batches)), jnp.mean(values, axis=0)

    means, by_position = jax.lax.map(run, (cases, counts))
    changes: Statistics = {}
    for (name, dims), value in means.items():
        gains, of = value - value[0], {} if name == "loss" else {"of": name}
        for row, intervention in enumerate(ALL_HEADS, start=1):
            changes[Reading("loss_change", dims).at(intervention=intervention, **of)] = gains[row]
        heads = gains[1 + len(ALL_HEADS) : len(counts) - several].reshape(cfg.layers, cfg.block.heads)
        changes[Reading("head_removed", dims).at(**of)] = heads
    for row, count in enumerate(hidden, start=len(counts) - several):
        gain = jnp.mean(by_position[row, count:]) - jnp.mean(by_position[0, count:])
        changes[reading("loss_change", intervention="hidden", tokens=count)] = gain
    return changes
