"""One pre-norm transformer block: its weights, how they are sharded, and the function that applies them."""

from dataclasses import dataclass
from typing import Any, no_type_check

import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

from model.attention import AttentionStatistics, attention
from model.feedforward import Activation, FeedForward, feedforward, feedforward_weights
from model.gating import Gate, apply_gate, gate_scores
from model.linear import draw, matrix, project
from model.norm import Norm, init_norm, normalise
from model.positions.rope import rotate
from model.positions.tables import PositionTables

# Axes:  B batch  T query  S key  D model  N query heads  K key/value heads  H head  F hidden  L layers
HEADS = P("data", None, "model", None)
RESIDUAL = P("data", None, None)


@dataclass(frozen=True)
class BlockConfig:
    """The structure of a block: what decides shapes, and so is compiled in."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    activation: Activation = "swiglu"
    layer_norm: bool = False
    gate: Gate = "none"
    interleaved: bool = False

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads: it must divide them")
        if self.head_dim % 2:
            raise ValueError(f"RoPE rotates pairs of channels: the head dimension {self.head_dim} must be even")


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Block:
    """Weights. `*L` is empty for one block and the layer axis for a stack."""

    attention_norm: Norm
    query: Float[Array, "*L D N H"]
    key: Float[Array, "*L D K H"]
    value: Float[Array, "*L D K H"]
    gate: Float[Array, "*L D heads"] | Float[Array, "*L D heads H"] | None
    extra_logit: Float[Array, "*L N"]
    output: Float[Array, "*L N H D"]
    feedforward_norm: Norm
    feedforward: FeedForward


@no_type_check
@struct.dataclass
class LayerTrace:
    """What one layer did, for measurements; whatever a measurement does not use is never computed. `*L` is empty for one."""

    attention: AttentionStatistics
    value_norm: Float[Array, "*L B T K"]  # |v|, behind a gate on the values
    gate: Float[Array, "*L B T heads"] | Float[Array, "*L B T heads H"] | None
    residual: Float[Array, "*L B T D"]  # behind the layer


def init_block(key: Array, cfg: BlockConfig, *, extra_logit: float | Float[Array, ""], depth: int) -> Block:
    """Matrices at 1/sqrt(fan-in); those that write to the residual stream 1/sqrt(2 · depth) of it (Radford et al. 2019)."""
    D, N, K, H = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim
    gain = (2 * depth) ** -0.5
    block = Block(
        attention_norm=init_norm(D, bias=cfg.layer_norm),
        query=matrix((D, N, H), P("data", "model", None), D),
        key=matrix((D, K, H), P("data", "model", None), D),
        value=matrix((D, K, H), P("data", "model", None), D),
        gate=_gate(cfg),
        extra_logit=jnp.full(N, extra_logit, jnp.float32, out_sharding=P("model")),
        output=matrix((N, H, D), P("model", None, "data"), N * H, gain),
        feedforward_norm=init_norm(D, bias=cfg.layer_norm),
        feedforward=feedforward_weights(D, cfg.hidden, cfg.activation, gain),
    )
    return draw(key, block)


def _gate(cfg: BlockConfig) -> Any:
    D, N, K, H = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim
    match cfg.gate:
        case "none":
            return None
        case "output_headwise":
            return matrix((D, N), P("data", "model"), D)
        case "output_elementwise":
            return matrix((D, N, H), P("data", "model", None), D)
        case "value_headwise":
            return matrix((D, K), P("data", "model"), D)
        case "value_elementwise":
            return matrix((D, K, H), P("data", "model", None), D)


def apply_block(
    p: Block,
    x: Float[Array, "B T D"],
    tables: PositionTables,
    positions: Int[Array, " T"],
    cfg: BlockConfig,
    padding: Bool[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T D"], LayerTrace]:
    """x + attention(norm(x)), then + feedforward(norm(·)). `tables` is one layer's row. Needs a mesh."""
    h = normalise(p.attention_norm, x)
    q, k, v = (project(h, w, out_sharding=HEADS) for w in (p.query, p.key, p.value))
    q, k = (
        rotate(y, positions, tables.inverse_frequencies, factor=tables.attention_factor, interleaved=cfg.interleaved)
        for y in (q, k)
    )
    gate = None if p.gate is None else gate_scores(h, p.gate)
    if gate is not None and cfg.gate.startswith("value"):
        v = apply_gate(v, gate)
    o, statistics = attention(q, k, v, extra_logit=p.extra_logit, slopes=tables.slopes, window=tables.window, padding=padding)
    if gate is not None and cfg.gate.startswith("output"):
        o = apply_gate(o, gate)
    x = x + project(o, p.output, contract=2, out_sharding=RESIDUAL)
    x = x + feedforward(p.feedforward, normalise(p.feedforward_norm, x), cfg.activation)
    norm = jnp.linalg.norm(v.astype(jnp.float32), axis=-1)
    return x, LayerTrace(attention=statistics, value_norm=norm, gate=gate, residual=x)
