"""One transformer block: its weights, how they are sharded, and the function that applies them."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.model.attention.attention import AttentionStatistics, attend_all, attend_by_query, attention
from leadline.model.attention.blockwise import part_of
from leadline.model.attention.gate import GateConfig, GateScores, Where, apply_gate, gate_scores, gate_weights
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores, grouped
from leadline.model.cache.protocol import Cache
from leadline.model.context import Context, text_positions
from leadline.model.context_parallel import AXIS, first_position
from leadline.model.feedforward import Activation, FeedForward, feedforward, feedforward_weights
from leadline.model.intervention import with_first_value, with_heads
from leadline.model.linear import draw, matrix, project, project_each
from leadline.model.mesh import GROUPS, HEADS, RESIDUAL, axis_size, on_mesh
from leadline.model.norm import Norm, init_norm, normalise
from leadline.model.positions.pope import init_polar_phase
from leadline.model.positions.relative import Bias, BiasConfig, init_bias, score_bias
from leadline.model.positions.rotation import Side, rotate, rotate_polar, table_rotation, tables_at
from leadline.model.positions.tables import PositionTables

# Where the norms stand (see `apply_block`).
Placement = Literal["pre", "post", "sandwich"]
# Axes:  B batch  T query  S key  D model  N query heads  K key/value heads  H head  F hidden  L layers


@dataclass(frozen=True)
class BlockConfig:
    """The structure of a block: what decides shapes and is compiled in.

    Attributes:
        width: D.
        heads: N, query heads.
        kv_heads: K, key/value heads, which query heads share.
        head_dim: H.
        hidden: F, hidden units of the feed-forward.
        activation: of the feed-forward.
        layer_norm: LayerNorm instead of RMSNorm.
        placement: of the norms.
        gate: of queries, keys, values or outputs.
        interleaved: whether RoPE pairs the channels (2i, 2i + 1) instead of (i, i + H/2).
        polar: PoPE instead of RoPE.
        table_per: what the rows of the position tables depend on: one table for the whole "sequence"; one for each "query",
            which rotates every key by it; or one for each "token", query or key, by its own position.
        position_bias: a relative position encoding that adds to the scores.
        normalizer: a name of model.attention.normalizers.NORMALIZERS.
        soft_cap: whether the scores are capped.
        qk_norm: RMSNorm of queries and keys before they are rotated (Dehghani et al. 2023, arXiv:2302.05442).
        scalable_softmax: multiplies the scores of a query that sees n tokens by s · ln n, with s learned for each head
            (Nakanishi 2025, arXiv:2501.19399).
        key_bias: a learned key of the sink logit (Gu et al. 2024, arXiv:2410.10781).
        value_bias: a learned value of the sink logit; needs the key bias.
        key_bias_dims: the first channels of the key bias, which are learned while the others are 0 (Gu et al. 2024, Table 13);
            None is all.

    Raises:
        ValueError: for sizes that do not fit, and mechanisms that exclude each other.
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    activation: Activation = "swiglu"
    layer_norm: bool = False
    placement: Placement = "pre"
    gate: GateConfig | None = None
    interleaved: bool = False
    polar: bool = False
    table_per: Literal["sequence", "query", "token"] = "sequence"
    position_bias: BiasConfig | None = None
    normalizer: str = "softmax"
    soft_cap: bool = False
    qk_norm: bool = False
    scalable_softmax: bool = False
    key_bias: bool = False
    value_bias: bool = False
    key_bias_dims: int | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads: it must divide them")
        if self.head_dim % 2:
            raise ValueError(f"RoPE rotates pairs of channels: the head dimension {self.head_dim} must be even")
        if self.normalizer not in NORMALIZERS:
            raise ValueError(f"unknown normalizer {self.normalizer!r}: choose one of {', '.join(NORMALIZERS)}")
        if not 0 < (self.key_bias_dims or self.head_dim) <= self.head_dim:
            raise ValueError(f"a key of {self.head_dim} channels has no first {self.key_bias_dims}")
        if self.value_bias and not self.key_bias:
            raise ValueError("a value bias is the value of a key bias: set key_bias too")
        if self.polar and self.key_bias:
            raise ValueError("PoPE's keys have twice the channels of a key bias: choose one of the two")


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Block:
    """Weights. `*L` is empty for one block and the layer axis for a stack."""

    attention_norm: Norm
    query: Float[Array, "*L D N H"]
    key: Float[Array, "*L D K H"]
    value: Float[Array, "*L D K H"]
    gate: Float[Array, "..."] | None  # model.attention.gate
    sink_logit: Float[Array, "*L N"]
    key_bias: Float[Array, "*L K H"] | None  # its first channels, where the others are 0
    value_bias: Float[Array, "*L K H"] | None
    length_scale: Float[Array, "*L N"] | None  # s of scalable softmax
    query_norm: Norm | None
    key_norm: Norm | None
    position_bias: Bias | None
    phase: Float[Array, "*L K H"] | None  # of PoPE
    output: Float[Array, "*L N H D"]
    attention_end: Norm | None  # of a sandwich, behind attention
    feedforward_norm: Norm
    feedforward: FeedForward
    feedforward_end: Norm | None


@no_type_check
@struct.dataclass
class LayerTrace:
    """What one layer computed, for measurements. Under jit, unused fields are not computed. `*L` is empty for one layer."""

    attention: AttentionStatistics
    query: Float[Array, "*L B T N H"] | None  # rotated: query · key / sqrt(H) is the score; None where each query rotates keys
    key: Float[Array, "*L B T K H"] | None  # rotated
    value: Float[Array, "*L B T K H"]  # behind a gate on the values
    value_norm: Float[Array, "*L B T K"]  # |v|
    gate: Float[Array, "..."] | None  # [*L, B, T, …], model.attention.gate
    residual: Float[Array, "*L B T D"]  # behind the layer


def init_block(key: Array, cfg: BlockConfig, *, sink_logit: float | Float[Array, ""] = -jnp.inf, depth: int = 1) -> Block:
    """Weights of one block.

    Matrices are drawn at 1/sqrt(fan-in); those that write to the residual stream at 1/sqrt(2 · depth) of it (Radford et al.
    2019).

    Args:
        key: of the random numbers.
        cfg: the structure.
        sink_logit: initial value of every sink logit.
        depth: number of layers.
    """
    D, N, K, H, bias = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim, cfg.position_bias
    gain, by_head = (2 * depth) ** -0.5, on_mesh(P("model"))
    block = Block(
        attention_norm=init_norm(D, bias=cfg.layer_norm),
        query=matrix((D, N, H), P("data", "model", None), D),
        key=matrix((D, K, H), P("data", "model", None), D),
        value=matrix((D, K, H), P("data", "model", None), D),
        gate=cfg.gate and gate_weights(cfg.gate, D, N, K, H),
        sink_logit=jnp.full(N, sink_logit, jnp.float32, out_sharding=by_head),
        key_bias=_sink_bias(cfg, cfg.key_bias_dims or H) if cfg.key_bias else None,
        value_bias=_sink_bias(cfg, H) if cfg.value_bias else None,
        length_scale=jnp.ones(N, jnp.float32, out_sharding=by_head) if cfg.scalable_softmax else None,
        query_norm=init_norm(H, bias=False) if cfg.qk_norm else None,
        key_norm=init_norm(H, bias=False) if cfg.qk_norm else None,
        position_bias=bias and init_bias(jax.random.fold_in(key, 1), bias, D, N, H),
        phase=init_polar_phase(K, H) if cfg.polar else None,
        output=matrix((N, H, D), P("model", None, "data"), N * H, gain),
        attention_end=init_norm(D, bias=cfg.layer_norm) if cfg.placement == "sandwich" else None,
        feedforward_norm=init_norm(D, bias=cfg.layer_norm),
        feedforward=feedforward_weights(D, cfg.hidden, cfg.activation, gain),
        feedforward_end=init_norm(D, bias=cfg.layer_norm) if cfg.placement == "sandwich" else None,
    )
    return draw(key, block)


def _sink_bias(cfg: BlockConfig, dims: int) -> Any:
    """N(0, 0.02²), as the K and KV biases of Gu et al. 2024."""
    return matrix((cfg.kv_heads, dims), GROUPS, dims, 0.02 * dims**0.5)


def apply_block(
    p: Block, x: Float[Array, "B T D"], tables: PositionTables, cfg: BlockConfig, context: Context = Context()
) -> tuple[Float[Array, "B T D"], LayerTrace, Cache | None]:
    """Attention and feed-forward f, one after the other.

        pre        x + f(norm(x))
        post       norm(x + f(x))             (Vaswani et al. 2017, arXiv:1706.03762)
        sandwich   x + norm'(f(norm(x)))      (Ding et al. 2021, arXiv:2105.13290)

    Args:
        p: weights of one block.
        x: the residual stream.
        tables: one layer's row.
        cfg: the structure.
        context: positions, padding, cache and interventions.

    Returns:
        The residual stream, the trace of the layer, and the cache with the tokens, None without one.
    """
    h = _entering(p.attention_norm, x, cfg)
    q, k, v = project_each(h, (p.query, p.key, p.value), out_sharding=HEADS)
    if p.query_norm is not None and p.key_norm is not None:
        q, k = normalise(p.query_norm, q), normalise(p.key_norm, k)
    gate = None if p.gate is None or cfg.gate is None else gate_scores(h, p.gate, cfg.gate, tables.attention.gate)
    q, k, v = _gated(q, gate, cfg, "query"), _gated(k, gate, cfg, "key"), _gated(v, gate, cfg, "value")
    v = v if context.intervention is None else with_first_value(v, context.intervention)
    o, statistics, rotated, cache = _attention(p, q, k, v, tables, cfg, context)
    o = o if context.intervention is None else with_heads(o, v, context.intervention)
    o = project(_gated(o, gate, cfg, "output"), p.output, contract=2, out_sharding=RESIDUAL)
    x = _leaving(p.attention_norm, p.attention_end, x, _gated(o, gate, cfg, "projection"), cfg)
    y = feedforward(p.feedforward, _entering(p.feedforward_norm, x, cfg), cfg.activation)
    x = _leaving(p.feedforward_norm, p.feedforward_end, x, y, cfg)
    norm = jnp.linalg.norm(v.astype(jnp.float32), axis=-1)
    q, k = rotated
    trace = LayerTrace(attention=statistics, query=q, key=k, value=v, value_norm=norm, gate=gate, residual=x)
    return x, trace, cache


def _entering(norm: Norm, x: Float[Array, "B T D"], cfg: BlockConfig) -> Float[Array, "B T D"]:
    """The input of f."""
    return x if cfg.placement == "post" else normalise(norm, x)


def _leaving(
    norm: Norm, end: Norm | None, x: Float[Array, "B T D"], y: Float[Array, "B T D"], cfg: BlockConfig
) -> Float[Array, "B T D"]:
    """The residual stream with the output y of f."""
    if cfg.placement == "post":
        return normalise(norm, x + y)
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
    mask, scores = Mask(tables.window, tables.initial_tokens, padding=context.padding), _scores(p, tables, cfg, q, context)
    rotated = partial(_rotated, p, cfg=cfg, context=context)
    by_query, queries = cfg.table_per == "query", (q, q)
    if not by_query:
        queries = rotated(q, i, tables, "query", inside), rotated(q, inside, tables, "query", inside)
        k = rotated(k, i, tables, "key", i)
    if cache is None and not by_query:
        o, statistics = attention(queries[0], k, v, mask, scores, context_parallel=context.context_parallel)
        return o, statistics, (queries[0], k), None
    parts = (part_of(*grouped(q, k, v), i, mask),) if cache is None else cache.parts(queries, k, v, mask)
    if by_query:
        o, statistics = attend_by_query(parts, i, lambda x, j, at, side: rotated(x, j, tables_at(tables, at), side, j), scores)
    else:
        o, statistics = attend_all(parts, i, scores)
    return o, statistics, (None, None) if by_query else (queries[0], k), cache and cache.update(k, v, o)


def _indices(tokens: int, context: Context) -> Int[Array, " T"]:
    """The places of the tokens in the text."""
    if context.context_parallel:
        return first_position(tokens) + jnp.arange(tokens)
    return jnp.arange(tokens) if context.cache is None else context.cache.length + jnp.arange(tokens)


def _scores(p: Block, tables: PositionTables, cfg: BlockConfig, q: Float[Array, "B T N H"], context: Context) -> Scores:
    """The scores of a layer. Its scale is in the queries (`_score_factor`), but for 1/sqrt(H)."""
    keys = q.shape[1] * axis_size(AXIS) if context.context_parallel else q.shape[1]
    keys = keys if context.cache is None else context.cache.room or keys
    return Scores(
        scale=cfg.head_dim**-0.5,
        sink_logit=p.sink_logit,
        slopes=tables.slopes,
        cap=tables.attention.cap if cfg.soft_cap else None,
        bias=None if cfg.position_bias is None else score_bias(p.position_bias, cfg.position_bias, keys),
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
    return y * _score_factor(p, tables, at).astype(y.dtype) if side == "query" else y


def _score_factor(p: Block, tables: PositionTables, i: Int[Array, " T"]) -> Float[Array, "1 #T #N 1"]:
    """The factor of the scores of each query. It follows the rotation, since PoPE's softplus is not linear."""
    factor = tables.attention.scale[None, None]
    if p.length_scale is not None:
        factor = factor * jnp.log1p(i.astype(jnp.float32))[:, None] * p.length_scale[None]
    return factor[None, :, :, None]
