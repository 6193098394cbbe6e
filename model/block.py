"""One transformer block: its weights, how they are sharded, and the function that applies them."""

from dataclasses import dataclass
from typing import Any, Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import AttentionStatistics, attend, attention, attention_by_query
from model.cache import Cache, remember
from model.feedforward import Activation, FeedForward, feedforward, feedforward_weights
from model.gating import GateConfig, Scores, Where, apply_gate, gate_scores, gate_weights
from model.intervention import Intervention, with_first_value, with_heads
from model.kernels.kernel import Kernel, weigh
from model.linear import draw, matrix, project, project_each
from model.norm import Norm, init_norm, normalise
from model.positions.bias import Bias, BiasConfig, init_bias, score_bias
from model.positions.pope import init_polar_phase
from model.positions.tables import PositionTables
from model.positions.turn import Side, Turns, at_places, by_turn, polarised, turned
from model.rolling import Rolling, attend_rolling, enter
from model.spread import first_place
from model.streaming import Stream, attend_stream, places_in_cache, read_on

# Where the norms stand (see `apply_block`).
Placement = Literal["pre", "post", "sandwich"]
# Axes:  B batch  T query  S key  D model  N query heads  K key/value heads  H head  F hidden  L layers
HEADS = P("data", None, "model", None)
RESIDUAL = P("data", None, None)


@dataclass(frozen=True)
class BlockConfig:
    """The structure of a block: what decides shapes, and so is compiled in.

    `polar` is PoPE in the place of RoPE. `table_per` says what the rows of the tables depend on: one table for the whole
    sequence; one for each query, which turns every key by it anew; or one for each token, query or key, by its own position.
    `capped` is a soft cap of the scores, `qk_norm` an RMSNorm of queries and keys before they are turned (Dehghani et al. 2023,
    arXiv:2302.05442), `scalable` a factor s · ln n of the scores of a query that sees n tokens, s learned for each head
    (Nakanishi 2025, arXiv:2501.19399), `prepended` a learned row before the first token (model.attention, `bias_key`), of whose
    key only the first `prepended_dims` channels are learned and the others 0 (Gu et al. 2024, Table 13); None is all.
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
    kernel: Kernel = "softmax"
    capped: bool = False
    qk_norm: bool = False
    scalable: bool = False
    prepended: Literal["none", "key", "key_value"] = "none"
    prepended_dims: int | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads: it must divide them")
        if self.head_dim % 2:
            raise ValueError(f"RoPE rotates pairs of channels: the head dimension {self.head_dim} must be even")
        if not 0 < (self.prepended_dims or self.head_dim) <= self.head_dim:
            raise ValueError(f"a key of {self.head_dim} channels has no first {self.prepended_dims}")
        if self.polar and self.prepended != "none":
            raise ValueError("PoPE's keys have twice the channels of a row before the first token: choose another of the two")


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Block:
    """Weights. `*L` is empty for one block and the layer axis for a stack."""

    attention_norm: Norm
    query: Float[Array, "*L D N H"]
    key: Float[Array, "*L D K H"]
    value: Float[Array, "*L D K H"]
    gate: Float[Array, "..."] | None  # model.gating
    extra_logit: Float[Array, "*L N"]
    bias_key: Float[Array, "*L K H"] | None  # its first channels, where the others are 0
    bias_value: Float[Array, "*L K H"] | None
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
    """What one layer did, for measurements; whatever a measurement does not use is never computed. `*L` is empty for one."""

    attention: AttentionStatistics
    query: Float[Array, "*L B T N H"] | None  # turned; query · key / sqrt(H) is the score. None where each query turns the keys
    key: Float[Array, "*L B T K H"] | None  # turned
    value: Float[Array, "*L B T K H"]  # behind a gate on the values
    value_norm: Float[Array, "*L B T K"]  # |v|
    gate: Float[Array, "..."] | None  # [*L, B, T, …], model.gating
    residual: Float[Array, "*L B T D"]  # behind the layer


def init_block(key: Array, cfg: BlockConfig, *, extra_logit: float | Float[Array, ""], depth: int) -> Block:
    """Matrices at 1/sqrt(fan-in); those that write to the residual stream 1/sqrt(2 · depth) of it (Radford et al. 2019)."""
    D, N, K, H, bias = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim, cfg.position_bias
    gain = (2 * depth) ** -0.5
    block = Block(
        attention_norm=init_norm(D, bias=cfg.layer_norm),
        query=matrix((D, N, H), P("data", "model", None), D),
        key=matrix((D, K, H), P("data", "model", None), D),
        value=matrix((D, K, H), P("data", "model", None), D),
        gate=cfg.gate and gate_weights(cfg.gate, D, N, K, H),
        extra_logit=jnp.full(N, extra_logit, jnp.float32, out_sharding=P("model")),
        bias_key=_prepended(cfg, cfg.prepended_dims or H) if cfg.prepended != "none" else None,
        bias_value=_prepended(cfg, H) if cfg.prepended == "key_value" else None,
        length_scale=jnp.ones(N, jnp.float32, out_sharding=P("model")) if cfg.scalable else None,
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


def _prepended(cfg: BlockConfig, dims: int) -> Any:
    """N(0, 0.02²), as the K and KV biases of Gu et al. 2024."""
    return matrix((cfg.kv_heads, dims), P("model", None), dims, 0.02 * dims**0.5)


def apply_block(
    p: Block,
    x: Float[Array, "B T D"],
    tables: PositionTables,
    positions: Int[Array, "S coordinates"],
    cfg: BlockConfig,
    padding: Bool[Array, "B T"] | None = None,
    cache: Cache | Stream | Rolling | None = None,
    intervention: Intervention | None = None,
    turns: Turns | None = None,
    spread: bool = False,
) -> tuple[Float[Array, "B T D"], LayerTrace, Cache | Stream | Rolling | None]:
    """Attention and feed-forward f, one behind the other. `tables` is one layer's row, `turns` what follows from it
    (model.positions.turn.layer_turns), computed here where it is not given. Needs a mesh.

        pre        x + f(norm(x))
        post       norm(x + f(x))             (Vaswani et al. 2017, arXiv 1706.03762)
        sandwich   x + norm'(f(norm(x)))      (Ding et al. 2021, arXiv 2105.13290)

    `positions` are those of every token from the first of the text; with a cache, also of those that it remembers and of
    those that it has room for. A stream is of texts only, whose coordinates are the numbers of the tokens. For a rolling cache
    `positions` has two rows: those of the token that it takes, in the text and among what it remembers. `spread` is for a
    device that has T tokens of a longer text (model.spread), without a cache.
    """
    h = _entering(p.attention_norm, x, cfg)
    q, k, v = project_each(h, (p.query, p.key, p.value), out_sharding=HEADS)
    if p.query_norm is not None and p.key_norm is not None:
        q, k = normalise(p.query_norm, q), normalise(p.key_norm, k)
    gate = None if p.gate is None or cfg.gate is None else gate_scores(h, p.gate, cfg.gate, tables.attention.gate)
    q, k, v = _gated(q, gate, cfg, "query"), _gated(k, gate, cfg, "key"), _gated(v, gate, cfg, "value")
    v = v if intervention is None else with_first_value(v, intervention)
    if isinstance(cache, Rolling):
        seen = cache
    else:
        seen = read_on(cache, k, v) if isinstance(cache, Stream) else cache and remember(cache, k, v)
    o, statistics, turned = _attention(p, q, k, v, tables, positions, cfg, padding, seen, turns, spread=spread)
    later = enter(seen, turned[1], v, o) if isinstance(seen, Rolling) and turned is not None else seen
    o = o if intervention is None else with_heads(o, v, intervention)
    o = project(_gated(o, gate, cfg, "output"), p.output, contract=2, out_sharding=RESIDUAL)
    x = _leaving(p.attention_norm, p.attention_end, x, _gated(o, gate, cfg, "projection"), cfg)
    y = feedforward(p.feedforward, _entering(p.feedforward_norm, x, cfg), cfg.activation)
    x = _leaving(p.feedforward_norm, p.feedforward_end, x, y, cfg)
    norm = jnp.linalg.norm(v.astype(jnp.float32), axis=-1)
    q, k = (None, None) if turned is None else turned
    trace = LayerTrace(attention=statistics, query=q, key=k, value=v, value_norm=norm, gate=gate, residual=x)
    return x, trace, later


def _entering(norm: Norm, x: Float[Array, "B T D"], cfg: BlockConfig) -> Float[Array, "B T D"]:
    """What f sees of the residual stream."""
    return x if cfg.placement == "post" else normalise(norm, x)


def _leaving(
    norm: Norm, end: Norm | None, x: Float[Array, "B T D"], y: Float[Array, "B T D"], cfg: BlockConfig
) -> Float[Array, "B T D"]:
    """The residual stream with the output y of f."""
    if cfg.placement == "post":
        return normalise(norm, x + y)
    return x + (y if end is None else normalise(end, y))


def _gated(y: Array, gate: Scores | None, cfg: BlockConfig, where: Where) -> Array:
    """y, gated if this is where the gate of the block is."""
    return y if gate is None or cfg.gate is None or cfg.gate.where != where else apply_gate(y, gate, cfg.gate.per)


def _attention(
    p: Block,
    q: Float[Array, "B T N H"],
    k: Float[Array, "B T K H"],
    v: Float[Array, "B T K H"],
    tables: PositionTables,
    positions: Int[Array, "S coordinates"],
    cfg: BlockConfig,
    padding: Bool[Array, "B T"] | None,
    cache: Cache | Stream | Rolling | None,
    turns: Turns | None,
    *,
    spread: bool,
) -> tuple[Float[Array, "B T N H"], AttentionStatistics, tuple[Array, Array] | None]:
    """Queries and keys turned to their positions, which come last where every query sees the same keys; keys and values of the
    whole text where there is a cache."""
    i = jnp.arange(q.shape[1])
    if spread:
        i = first_place(q.shape[1]) + i
    elif isinstance(cache, Rolling):
        i = cache.length + i
    elif isinstance(cache, Stream):
        i = places_in_cache(cache, q.shape[1])
    elif cache is not None:
        i = cache.length - q.shape[1] + i
        k, v = cache.key.astype(k.dtype), cache.value.astype(v.dtype)
    places = i if spread else jnp.arange(k.shape[1])
    keys = cache.key.shape[2] if isinstance(cache, Rolling) else positions.shape[0]
    values = {
        "extra_logit": p.extra_logit,
        "slopes": tables.slopes,
        "window": tables.window,
        "kept": tables.kept,
        "scale": cfg.head_dim**-0.5,
        "cap": tables.attention.cap if cfg.capped else None,
        "weigh": weigh(cfg.kernel, tables.attention.clip, tables.attention.sigmoid_bias),
        "bias_key": None if p.bias_key is None else jnp.pad(p.bias_key, [(0, 0), (0, cfg.head_dim - p.bias_key.shape[-1])]),
        "bias_value": p.bias_value,
        "bias": None if cfg.position_bias is None else score_bias(p.position_bias, cfg.position_bias, keys),
    }
    if isinstance(cache, Stream):
        q = q * _score_factor(p, tables, i).astype(q.dtype)
        return *attend_stream(q, cache, tables, interleaved=cfg.interleaved, **values), None
    if isinstance(cache, Rolling):
        at = jnp.minimum(i, cache.furthest)
        first_q = turn(p, q, i, positions[1:], tables, "query", cfg, at)
        q = turn(p, q, i, positions[:1], tables, "query", cfg, at)
        k = turn(p, k, i, positions[:1], tables, "key", cfg)
        return *attend_rolling(q, first_q, k, v, cache, **values), (q, k)
    if cfg.table_per == "query":

        def of_query(x: Array, i: Int[Array, " T"], at: Int[Array, ""], side: Side) -> Array:
            return turn(p, x, i, positions[i], at_places(tables, at), side, cfg)

        return *attention_by_query(q, k, v, i, of_query, **values), None
    if turns is None:
        q = turn(p, q, i, positions[i], tables, "query", cfg)
        k = turn(p, k, places, positions[places], tables, "key", cfg)
    else:
        q, k = (by_turn(x, own, interleaved=cfg.interleaved) for x, own in ((q, turns.query), (k, turns.key)))
        q = q * _score_factor(p, tables, i).astype(q.dtype)
    if cache is not None:
        return *attend(q, k, v, i, **values), (q, k)
    return *attention(q, k, v, padding=padding, spread=spread, **values), (q, k)


def turn(
    p: Block,
    x: Float[Array, "B T heads H"],
    i: Int[Array, " T"],
    positions: Int[Array, "T coordinates"],
    tables: PositionTables,
    side: Side,
    cfg: BlockConfig,
    at: Int[Array, " T"] | None = None,
) -> Float[Array, "B T heads turned"]:
    """The queries or keys of tokens i at their positions; with the amplitude of the places `at`, if they are others."""
    at = i if at is None else at
    own = at_places(tables, i) if cfg.table_per == "token" else tables
    if p.phase is not None:
        y = polarised(x, at, positions, own, side, p.phase)
    else:
        y = turned(x, at, positions, own, side, interleaved=cfg.interleaved)
    return y * _score_factor(p, tables, at).astype(y.dtype) if side == "query" else y


def _score_factor(p: Block, tables: PositionTables, i: Int[Array, " T"]) -> Float[Array, "1 #T #N 1"]:
    """What multiplies the scores of each query. It comes behind the turn: PoPE's softplus is not linear."""
    factor = tables.attention.scale[None, None]
    if p.length_scale is not None:
        factor = factor * jnp.log1p(i.astype(jnp.float32))[:, None] * p.length_scale[None]
    return factor[None, :, :, None]
