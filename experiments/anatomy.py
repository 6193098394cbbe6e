"""A trained model taken apart: what its layers and heads do on held-out text, and what becomes of the loss without them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from experiments.config.study import Arm
from experiments.evaluate import Statistics, evaluate
from experiments.group import Point
from experiments.measure.gradient import gradient_norms
from experiments.measure.layers import layer_anatomy, layer_statistics
from experiments.measure.lens import early_decoding
from experiments.measure.maps import attention_map
from experiments.measure.perplexity import mean_loss
from experiments.population import compiled, over_arms, population_mesh, share, stack, unstack
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

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return layer_statistics(trace, token=token, epsilon=epsilon) | layer_anatomy(_whole(trace), start=start)

    def early(tokens: Int[Array, "B T"]) -> Float[Array, " L"]:
        _, residuals = apply_decoder(params, tokens[:, :-1], tables, cfg, measure=lambda trace: trace.residual)
        return early_decoding(residuals, lambda x: decoded(params, x))

    def loss_of(weights: Decoder) -> Float[Array, ""]:
        scores, _ = apply_decoder(weights, batches[0][:, :-1], tables, cfg)
        return mean_loss(token_losses(scores, batches[0][:, 1:]))

    return evaluate(params, tables, batches, cfg, of_layer=of_layer, of_losses=of_losses) | {
        "early_divergence": jnp.mean(jax.lax.map(early, batches), axis=0),
        "gradient_norm": gradient_norms(jax.grad(loss_of)(params).blocks),
    }


def _whole(trace: LayerTrace) -> LayerTrace:
    """With the queries and keys of all heads on every device of the model axis: statistics regroup them."""

    def gathered(x: Array | None) -> Array | None:
        return None if x is None else jax.reshard(x, P("data", None, None, None))

    return replace(trace, query=gathered(trace.query), key=gathered(trace.key))


def interventions(cfg: DecoderConfig) -> dict[str, Intervention]:
    """What is done to all heads at once, by name; each row of the last one, [L · N, L, …], removes one head."""
    L, N, K = cfg.layers, cfg.block.heads, cfg.block.kv_heads
    none = no_intervention(L, N, K)
    empty, full = jnp.zeros((L, K)), jnp.ones((L, K))
    alone = 1 - jnp.eye(L * N).reshape(L * N, L, N)
    return {
        "zero_value": replace(none, first_value=empty),
        "mean_value": replace(none, first_value=empty, mean_value=full),
        "forced": replace(none, forced=jnp.ones((L, N))),
        "head_removed": replace(jax.tree.map(lambda leaf: jnp.tile(leaf[None], (L * N, 1, 1)), none), head=alone),
    }


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

    and by hiding the first n tokens from all others, for each n of `hidden`: `change_hidden4.loss`, over the targets of
    queries n, n + 1, … alone, where it is of the plain loss.
    """

    def losses(own: Intervention | None) -> Statistics:
        return evaluate(params, tables, batches, cfg, of_layer=lambda *_: {}, of_losses=of_losses, intervention=own)

    base, cases = losses(None), interventions(cfg)
    heads = jax.lax.map(losses, cases.pop("head_removed"))
    found = {f"head_removed.{name}": (value - base[name]).reshape(cfg.layers, cfg.block.heads) for name, value in heads.items()}
    for case, own in cases.items():
        found |= {f"change_{case}.{name}": value - base[name] for name, value in losses(own).items()}
    for count in hidden:
        found[f"change_hidden{count}.loss"] = _hidden(params, tables, batches, cfg, count)
    return found


def _hidden(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T"], cfg: DecoderConfig, count: int
) -> Float[Array, ""]:
    def one(tokens: Int[Array, "B T"]) -> Float[Array, ""]:
        def later(first: int) -> Float[Array, ""]:
            seen = jnp.broadcast_to(jnp.arange(tokens.shape[1] - 1)[None] >= first, tokens[:, 1:].shape)
            scores, _ = apply_decoder(params, tokens[:, :-1], tables, cfg, padding=jax.reshard(seen, P("data", None)))
            return jnp.mean(token_losses(scores, tokens[:, 1:])[:, count:])

        return later(count) - later(0)

    return jnp.mean(jax.lax.map(one, batches))


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
    job: Callable[[Decoder, PositionTables, Any], Statistics],
    inputs: tuple[Int[np.ndarray, "C B T"], Any],
    model: DecoderConfig,
    programs: list[str],
) -> list[Point]:
    """`job(params, tables, inputs)` of every trained model, in one program; the first of the inputs are the batches."""
    mesh = population_mesh(len(arms), inputs[0].shape[1], model.block.width)
    with jax.set_mesh(mesh):
        models = stack(params, mesh)
        rows = stack([tables_of(arm.model, arm.original_length, arm.data.length) for arm in arms], mesh)
        shared = share(inputs, mesh)
        return unstack(compiled("anatomy", over_arms(job), programs, models, rows, shared)(models, rows, shared), len(arms))
