"""What a block computes: attention and feed-forward, between its norms."""

from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.attention.attention import AttentionStatistics, attend_all, attend_by_query, attention
from leadline.model.attention.blockwise import part_of
from leadline.model.attention.gate import GateScores, Where, apply_gate, gate_scores
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores, grouped
from leadline.model.block import Block, BlockConfig, LayerTrace
from leadline.model.cache.protocol import Cache
from leadline.model.context import Context, text_positions
from leadline.model.cross_attention import cross_attention
from leadline.model.experts import Experts, mixture
from leadline.model.feedforward import feedforward
from leadline.model.intervention import with_first_value, with_heads
from leadline.model.linear import plus_bias, project, project_each
from leadline.model.mesh import HEADS, HIDDEN, RESIDUAL, TEXT, axis_size, first_position, on_mesh
from leadline.model.norm import Norm, normalise
from leadline.model.positions.rotation import Side, rotate, rotate_polar, table_rotation, tables_at
from leadline.model.positions.tables import PositionTables


def apply_block(
    p: Block, x: Float[Array, "B T D"], tables: PositionTables, cfg: BlockConfig, context: Context = Context()
) -> tuple[Float[Array, "B T D"], LayerTrace, Cache | None]:
    """Attention a and feed-forward f, one after the other, or side by side.

        pre         x + f(norm(x))
        post        norm(x + f(x))             (Vaswani et al. 2017, arXiv:1706.03762)
        sandwich    x + norm'(f(norm(x)))      (Ding et al. 2021, arXiv:2105.13290)
        reordered   x + norm(f(x))             (Liu et al. 2022, arXiv:2111.09883; OLMo 2, arXiv:2501.00656)
        parallel    x + a(norm(x)) + f(norm'(x))     (Wang and Komatsuzaki 2021; norm' = norm in parallel_one_norm)

    Args:
        p: weights of one block.
        x: the residual stream.
        tables: one layer's row.
        cfg: the structure.
        context: positions, padding, cache and interventions.

    Returns:
        The residual stream, the trace of the layer, and the cache with the tokens, None without one.
    """
    h, cross = _entering(p.attention_norm, x, cfg), None
    q, k, v = _projected(p, h, cfg)
    gate = None if p.gate is None or cfg.gate is None else gate_scores(h, p.gate, cfg.gate, tables.attention.gate)
    q, k, v = _gated(q, gate, cfg, "query"), _gated(k, gate, cfg, "key"), _gated(v, gate, cfg, "value")
    v = v if context.intervention is None else with_first_value(v, context.intervention)
    o, statistics, rotated, cache = _attention(p, q, k, v, tables, cfg, context)
    o = o if context.intervention is None else with_heads(o, v, context.intervention)
    o = project(_gated(o, gate, cfg, "output"), p.output, contract=2, out_sharding=RESIDUAL)
    o = _gated(plus_bias(o, p.biases.output), gate, cfg, "projection")
    if cfg.placement in ("parallel", "parallel_one_norm"):
        y, hidden = _feedforward(p, h if p.feedforward_norm is None else normalise(p.feedforward_norm, x), cfg)
        x = x + o + y
    else:
        x = _leaving(p.attention_norm, p.attention_end, x, o, cfg)
        x, cross = _crossed(p, x, cfg, context)
        y, hidden = _feedforward(p, _entering(p.feedforward_norm, x, cfg), cfg)
        x = _leaving(p.feedforward_norm, p.feedforward_end, x, y, cfg)
    norm = jnp.linalg.norm(v.astype(jnp.float32), axis=-1)
    q, k = rotated
    trace = LayerTrace(statistics, q, k, v, norm, gate, residual=x, output=o, cross=cross, hidden=hidden)
    return x, trace, cache


def _crossed(
    p: Block, x: Float[Array, "B T D"], cfg: BlockConfig, context: Context
) -> tuple[Float[Array, "B T D"], AttentionStatistics | None]:
    """The residual stream after cross-attention, if the block has it, and its statistics."""
    if p.cross is None:
        return x, None
    if context.memory is None:
        raise ValueError("cross-attention needs a source: give context.memory (model.encoder_decoder.encode)")
    y, statistics = cross_attention(p.cross, _entering(p.cross.norm, x, cfg), context.memory, context.padding)
    return _leaving(p.cross.norm, None, x, y, cfg), statistics


def _projected(p: Block, h: Float[Array, "B T D"], cfg: BlockConfig) -> tuple[Array, Array, Array]:
    """Queries [B, T, N, H], keys and values [B, T, K, H], with biases, clipped, and normalised where the block does so."""
    weights, biases = (p.query, p.key, p.value), (p.biases.query, p.biases.key, p.biases.value)
    products = project_each(h, weights, out_sharding=HEADS)
    q, k, v = (plus_bias(product, bias) for product, bias in zip(products, biases, strict=True))
    if cfg.clip is not None:
        q, k, v = (jnp.clip(x, -cfg.clip, cfg.clip) for x in (q, k, v))
    if p.query_norm is not None and p.key_norm is not None:
        q, k = _of_heads(p.query_norm, q, cfg), _of_heads(p.key_norm, k, cfg)
    return q, k, v


def _of_heads(norm: Norm, x: Float[Array, "B T N H"], cfg: BlockConfig) -> Float[Array, "B T N H"]:
    """Each head normalised by itself, or all of them together."""
    if not cfg.joint_qk_norm:
        return normalise(norm, x)
    together = x.reshape(*x.shape[:2], -1, out_sharding=on_mesh(HIDDEN))
    return normalise(norm, together).reshape(x.shape, out_sharding=on_mesh(HEADS))


def _feedforward(
    p: Block, x: Float[Array, "B T D"], cfg: BlockConfig
) -> tuple[Float[Array, "B T D"], Float[Array, "B T F"] | None]:
    """The output, and the hidden units where there is one network for all tokens."""
    if isinstance(p.feedforward, Experts):
        return mixture(p.feedforward, x, cfg.activation, cfg.active_experts), None
    return feedforward(p.feedforward, x, cfg.activation)


def _entering(norm: Norm | None, x: Float[Array, "B T D"], cfg: BlockConfig) -> Float[Array, "B T D"]:
    """The input of f."""
    return x if norm is None or cfg.placement in ("post", "reordered") else normalise(norm, x)


def _leaving(
    norm: Norm | None, end: Norm | None, x: Float[Array, "B T D"], y: Float[Array, "B T D"], cfg: BlockConfig
) -> Float[Array, "B T D"]:
    """The residual stream with the output y of f."""
    if norm is not None and cfg.placement == "post":
        return normalise(norm, x + y)
    if norm is not None and cfg.placement == "reordered":
        return x + normalise(norm, y)
    return x + (y if end is None else normalise(end, y))


def _gated(y: Array, gate: GateScores | None, cfg: BlockConfig, where: Where) -> Array:
    """y, gated if the gate of the block is there."""
    return y if gate is None or cfg.gate is None or cfg.gate.where != where else apply_gate(y, gate, cfg.gate.per)


def _attention(
    p: Block,
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    v: Float[Array, "B T K H"],
    tables: PositionTables,
    cfg: BlockConfig,
    context: Context,
) -> tuple[Float[Array, "B T N H"], AttentionStatistics, tuple[Array | None, Array | None], Cache | None]:
    """Attention of the tokens; the rotated queries and keys, which are None where every query rotates the keys; the cache."""
    cache, i = context.cache, _indices(q.shape[1], context)
    inside = i if cache is None else cache.inside(i)
    numbers = {"window": tables.window, "initial_tokens": tables.initial_tokens, "chunk": tables.chunk}
    mask = Mask(**numbers, padding=context.padding, documents=context.documents)
    scores = layer_scores(p, tables, cfg, q, context)
    rotated = partial(_rotated, p, cfg=cfg, context=context)
    by_query, queries = cfg.table_per == "query", (q, q)
    if not by_query:
        queries = rotated(q, i, tables, "query", inside), rotated(q, inside, tables, "query", inside)
        k = rotated(k, i, tables, "key", i)
    if cache is None and not by_query and not context.bidirectional:
        o, statistics = attention(queries[0], k, v, mask, scores, context_parallel=context.context_parallel)
        return o, statistics, (queries[0], k), None
    sees = jnp.full_like(i, i.shape[0] - 1) if context.bidirectional else i  # keys up to this position
    parts = (part_of(*grouped(queries[0], k, v), sees, mask),) if cache is None else cache.parts(queries, k, v, mask)
    real = context.padding if cache is None else None
    if by_query:

        def rotated_at(x: Array, j: Array, at: Array, side: Side) -> Array:
            return rotated(x, j, tables_at(tables, at), side, j)

        o, statistics = attend_by_query(parts, i, rotated_at, scores, real)
    else:
        o, statistics = attend_all(parts, i, scores, real)
    return o, statistics, (None, None) if by_query else (queries[0], k), cache and cache.update(k, v, o)


def _indices(tokens: int, context: Context) -> Int[Array, " T"]:
    """The places of the tokens in the text."""
    if context.context_parallel:
        return first_position(tokens) + jnp.arange(tokens)
    return jnp.arange(tokens) if context.cache is None else context.cache.length + jnp.arange(tokens)


def layer_scores(p: Block, tables: PositionTables, cfg: BlockConfig, q: Float[Array, "B T N H"], context: Context) -> Scores:
    """The scores of a layer. The scale is 1/sqrt(H); all other factors of the scores are in the queries (`_score_factor`)."""
    keys = q.shape[1] * axis_size(TEXT) if context.context_parallel else q.shape[1]
    keys = keys if context.cache is None else context.cache.room or keys
    return Scores(
        scale=cfg.head_dim**-0.5,
        sink_logit=p.sink_logit,
        slopes=tables.slopes,
        cap=tables.attention.cap if cfg.soft_cap else None,
        bias=None if cfg.position_bias is None else cfg.position_bias.score_bias(p.position_bias, keys),
        key_bias=None if p.key_bias is None else jnp.pad(p.key_bias, [(0, 0), (0, cfg.head_dim - p.key_bias.shape[-1])]),
        value_bias=p.value_bias,
        normalizer=NORMALIZERS[cfg.normalizer](tables.attention.normalizer),
    )


def _rotated(
    p: Block,
    x: Float[Array, "B T heads H"],
    i: Int[Array, " T"],
    tables: PositionTables,
    side: Side,
    at: Int[Array, " T"],
    *,
    cfg: BlockConfig,
    context: Context,
) -> Float[Array, "B T heads rotated"]:
    """The queries or keys of tokens i, rotated to their positions, with the amplitude and score factor of the places `at`."""
    if context.rotations is not None:
        y = rotate(x, getattr(context.rotations, side), interleaved=cfg.interleaved)
    else:
        positions = text_positions(i, tables) if context.positions is None else context.positions(i)
        rows = tables_at(tables, i) if cfg.table_per == "token" else tables
        if p.phase is not None:
            y = rotate_polar(x, at, positions, rows, side, p.phase)
        else:
            y = rotate(x, table_rotation(rows, at, positions, side), interleaved=cfg.interleaved)
    if side == "key":
        return y
    return (y.astype(jnp.float32) * _score_factor(p, tables, at, bidirectional=context.bidirectional)).astype(y.dtype)


def _score_factor(p: Block, tables: PositionTables, i: Int[Array, " T"], *, bidirectional: bool) -> Float[Array, "1 #T #N 1"]:
    """The factor of the scores of each query. It follows the rotation, since PoPE's softplus is not linear."""
    factor = tables.attention.scale[None, None]
    if p.length_scale is not None:
        seen = jnp.full_like(i, i.shape[0] - 1) if bidirectional else i  # keys that a query sees besides its own
        factor = factor * jnp.log1p(seen.astype(jnp.float32))[:, None] * p.length_scale[None]
    return factor[None, :, :, None]
