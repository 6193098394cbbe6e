"""Attention of one text as matrices, for figures: of short texts only."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.evaluate import Statistics
from leadline.experiments.records.measurement import reading
from leadline.model.attention.hyperparameters import Hyperparameters
from leadline.model.attention.normalizers import NORMALIZERS, Normalizer
from leadline.model.attention.scores import capped
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.positions.tables import PositionTables


def attention_map(
    query: Float[Array, "T N H"],
    key: Float[Array, "T K H"],
    sink_logit: Float[Array, " N"],
    normalizer: Normalizer,
    *,
    scale: float,
    cap: Float[Array, ""] | None = None,
) -> Float[Array, "N T T"]:
    """The attention of query i (row) to key j <= i in every head: numerators over their mass (model.attention.normalizers).

    Args:
        query: rotated, not yet scaled.
        key: rotated. Query head n reads key head n // (N / K).
        sink_logit: of each head, in the denominator.
        normalizer: one of model.attention.normalizers.
        scale: of the scores, to which nothing is added.
        cap: c of c · tanh(score / c).

    Returns:
        Probabilities, float32.
    """
    tokens, heads, _ = query.shape
    keys = jnp.repeat(key, heads // key.shape[1], axis=1, total_repeat_length=heads)
    scores = capped(scale * jnp.einsum("TNH,SNH->NTS", query, keys, preferred_element_type=jnp.float32), cap)
    causal = jnp.arange(tokens)[:, None] >= jnp.arange(tokens)[None, :]
    terms = normalizer(jnp.where(causal[None], scores, -jnp.inf), sink_logit[:, None])
    return terms.numerators / terms.mass[..., None]


def attention_maps(params: Decoder, tables: PositionTables, tokens: Int[Array, "B T"], cfg: DecoderConfig) -> Statistics:
    """`attention_map` [L, N, T, T] of every layer over the first text.

    Nothing for models whose scores are more than products of queries and keys: with a position bias, a key bias, or keys that
    each query rotates by a table of its own.
    """
    block = cfg.block
    if block.position_bias is not None or block.key_bias or block.table_per == "query":
        return {}

    def first_text(trace: LayerTrace) -> tuple[Array, ...]:
        return tuple(jax.reshard(x, P(None, None, None, None))[0] for x in (trace.query, trace.key) if x is not None)

    _, (query, key) = apply_decoder(params, tokens, tables, cfg, measure=first_text)

    def of_layer(row: tuple[Array, Array, Array, Hyperparameters]) -> Float[Array, "N T T"]:
        query, key, sink_logit, values = row
        normalizer = NORMALIZERS[block.normalizer](values.normalizer)
        cap = values.cap if block.soft_cap else None
        return attention_map(query, key, sink_logit, normalizer, scale=block.head_dim**-0.5, cap=cap)

    sink_logits = jax.reshard(params.blocks.sink_logit, P(None, None))
    return {reading("attention_map"): jax.lax.map(of_layer, (query, key, sink_logits, tables.attention))}
