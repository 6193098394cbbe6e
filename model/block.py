"""One transformer block: its structure, its weights and how they are sharded. `model.layer` applies them."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.attention.attention import AttentionStatistics
from leadline.model.attention.biases import Biases, attention_biases
from leadline.model.attention.gate import GateConfig, gate_weights
from leadline.model.attention.normalizers import NORMALIZERS, WITH_SINK_LOGIT
from leadline.model.cross_attention import CrossAttention, cross_attention_weights
from leadline.model.experts import Experts, expert_weights
from leadline.model.feedforward import Activation, FeedForward, feedforward_weights
from leadline.model.linear import draw, matrix
from leadline.model.mesh import GROUPS, on_mesh
from leadline.model.norm import Norm, init_norm
from leadline.model.positions.relative import PositionBias
from leadline.model.positions.rotation import init_polar_phase

# Where the norms stand (model.layer.apply_block).
Placement = Literal["pre", "post", "sandwich", "reordered", "parallel", "parallel_one_norm"]
# What has a table of position frequencies of its own.
TablePer = Literal["sequence", "query", "token"]
# Which products of a block have biases.
Biased = Literal["query", "key", "value", "output", "feedforward"]
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
        norm_epsilon: ε of all norms; None is the default of the kind.
        norm_offset: added to the scale of all norms.
        placement: of the norms.
        biases: products that have a bias.
        experts: networks of the feed-forward (model.experts), of which `active_experts` take each token; 0 is one for all.
        active_experts: experts of a token.
        gate: of queries, keys, values, outputs or the output projection.
        interleaved: whether RoPE pairs the channels (2i, 2i + 1) instead of (i, i + H/2).
        polar: PoPE instead of RoPE.
        table_per: what the rows of the position tables depend on: one table for the whole "sequence"; one for each "query",
            which rotates every key by it; or one for each "token", query or key, by its own position.
        position_bias: a relative position encoding that adds to the scores.
        normalizer: a name of model.attention.normalizers.NORMALIZERS.
        soft_cap: whether the scores are capped.
        qk_norm: RMSNorm of queries and keys before they are rotated, also where `layer_norm` is set (Dehghani et al. 2023,
            arXiv:2302.05442, with LayerNorm).
        joint_qk_norm: the mean square is over all heads together, not over each (OLMo 2, arXiv:2501.00656).
        clip: queries, keys and values are clipped to [-clip, clip] (MPT, OLMo 1); None is not.
        scalable_softmax: multiplies the scores of a query that sees n tokens by s · ln n, with s learned for each head
            (Nakanishi 2025, arXiv:2501.19399). What a window, a chunk, padding or a document mask hides counts in n, too.
        key_bias: a learned key of the sink logit (Gu et al. 2025, arXiv:2410.10781).
        value_bias: a learned value of the sink logit; needs the key bias.
        key_bias_dims: the first channels of the key bias, which are learned while the others are 0 (Gu et al. 2025, Table 13);
            None is all.
        cross: cross-attention between attention and feed-forward: a softmax, with the sizes and biases of attention and none
            of its other mechanisms (model.cross_attention).

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
    norm_epsilon: float | None = None
    norm_offset: float = 0.0
    placement: Placement = "pre"
    biases: tuple[Biased, ...] = ()
    experts: int = 0
    active_experts: int = 1
    gate: GateConfig | None = None
    interleaved: bool = False
    polar: bool = False
    table_per: TablePer = "sequence"
    position_bias: PositionBias | None = None
    normalizer: str = "softmax"
    soft_cap: bool = False
    qk_norm: bool = False
    joint_qk_norm: bool = False
    clip: float | None = None
    scalable_softmax: bool = False
    key_bias: bool = False
    value_bias: bool = False
    key_bias_dims: int | None = None
    cross: bool = False

    def __post_init__(self) -> None:
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads: it must divide them")
        if self.head_dim % 2:
            raise ValueError(f"RoPE rotates pairs of channels: the head dimension {self.head_dim} must be even")
        named = {
            "normalizer": NORMALIZERS,
            "placement": get_args(Placement),
            "activation": get_args(Activation),
            "table_per": get_args(TablePer),
        }
        for name, known in named.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(known)}")
        if unknown := set(self.biases) - set(get_args(Biased)):
            raise ValueError(f"unknown biases {', '.join(sorted(unknown))}: choose of {', '.join(get_args(Biased))}")
        if self.joint_qk_norm and not self.qk_norm:
            raise ValueError("joint_qk_norm says how queries and keys are normalised: set qk_norm too")
        if self.key_bias and self.normalizer not in WITH_SINK_LOGIT:
            raise ValueError(f"{self.normalizer!r} has no sink logit, so that a key bias would be dead: take softmax")
        if self.key_bias_dims is not None and not self.key_bias:
            raise ValueError("key_bias_dims are channels of a key bias: set key_bias too")
        if self.key_bias_dims is not None and not 0 < self.key_bias_dims <= self.head_dim:
            raise ValueError(f"key_bias_dims = {self.key_bias_dims}: give a number from 1 to the {self.head_dim} of a key")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(
                f"clip = {self.clip}: queries, keys and values are clipped to a range around 0; give a number above 0"
            )
        if self.polar and self.interleaved:
            raise ValueError("PoPE rotates single channels: interleaved says which pairs RoPE rotates, leave it out")
        if self.experts and not 1 <= self.active_experts <= self.experts:
            raise ValueError(f"{self.active_experts} active experts of {self.experts}: take between 1 and all of them")
        if self.value_bias and not self.key_bias:
            raise ValueError("a value bias is the value of a key bias: set key_bias too")
        if self.cross and self.placement not in ("pre", "post", "reordered"):
            raise ValueError(f'cross-attention has no place in {self.placement!r}: take "pre", "post" or "reordered"')
        if self.polar and self.key_bias:
            raise ValueError("PoPE's keys have twice the channels of a key bias: choose one of the two")


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
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
    position_bias: Any  # weights of cfg.position_bias; None without one
    phase: Float[Array, "*L K H"] | None  # of PoPE
    output: Float[Array, "*L N H D"]
    attention_end: Norm | None  # of a sandwich, after attention
    feedforward_norm: Norm | None  # None where attention's serves both
    feedforward: FeedForward | Experts
    feedforward_end: Norm | None
    biases: Biases = Biases()  # frozen
    cross: CrossAttention | None = None  # between attention and feed-forward


@no_type_check
@struct.dataclass
class LayerTrace:
    """What one layer computed, for measurements. Under jit, unused fields are not computed. `*L` is empty for one layer."""

    attention: AttentionStatistics
    query: Float[Array, "*L B T N H"] | None  # rotated: query · key / sqrt(H) is the score; None where each query rotates keys
    key: Float[Array, "*L B T K H"] | None  # rotated
    value: Float[Array, "*L B T K H"]  # after a gate on the values
    value_norm: Float[Array, "*L B T K"]  # |v|
    gate: Float[Array, "..."] | None  # [*L, B, T, …], model.attention.gate
    residual: Float[Array, "*L B T D"]  # after the layer
    output: Float[Array, "*L B T D"]  # of attention, after its projection and gates
    cross: AttentionStatistics | None = None  # of cross-attention
    hidden: Float[Array, "*L B T F"] | None = None  # units of the feed-forward after f; None of experts


def init_block(key: Array, cfg: BlockConfig, *, sink_logit: float | Float[Array, ""] | None = None, depth: int = 1) -> Block:
    """Weights of one block.

    Matrices are drawn at 1/sqrt(fan-in) (model.linear.draw); those that write to the residual stream at 1/sqrt(2 · depth) of it
    (Radford et al. 2019), also where cross-attention is a third that writes.

    Args:
        key: of the random numbers.
        cfg: the structure.
        sink_logit: initial value of every sink logit; None is 0 with a key bias, which adds to it, and -inf, none, without.
        depth: number of layers.
    """
    sink_logit = initial_sink_logit(cfg) if sink_logit is None else sink_logit
    D, N, K, H, bias = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim, cfg.position_bias
    gain, by_head = (2 * depth) ** -0.5, on_mesh(P("model"))
    norm = partial(init_norm, bias=cfg.layer_norm, epsilon=cfg.norm_epsilon, offset=cfg.norm_offset)
    qk_norm, biases = partial(norm, bias=False), partial(attention_biases, cfg.biases, D, N, K, H)
    block = Block(
        attention_norm=norm(D),
        query=matrix((D, N, H), P("data", "model", None), D),
        key=matrix((D, K, H), P("data", "model", None), D),
        value=matrix((D, K, H), P("data", "model", None), D),
        gate=cfg.gate and gate_weights(cfg.gate, D, N, K, H),
        sink_logit=jnp.full(N, sink_logit, jnp.float32, out_sharding=by_head),
        key_bias=_sink_bias(cfg, cfg.key_bias_dims or H) if cfg.key_bias else None,
        value_bias=_sink_bias(cfg, H) if cfg.value_bias else None,
        length_scale=jnp.ones(N, jnp.float32, out_sharding=by_head) if cfg.scalable_softmax else None,
        query_norm=qk_norm(N * H if cfg.joint_qk_norm else H) if cfg.qk_norm else None,
        key_norm=qk_norm(K * H if cfg.joint_qk_norm else H) if cfg.qk_norm else None,
        position_bias=bias and bias.init(jax.random.fold_in(key, 1), D, N, H),
        phase=init_polar_phase(K, H) if cfg.polar else None,
        output=matrix((N, H, D), P("model", None, "data"), N * H, gain),
        attention_end=norm(D) if cfg.placement == "sandwich" else None,
        feedforward_norm=None if cfg.placement == "parallel_one_norm" else norm(D),
        feedforward=_feedforward(cfg, gain),
        feedforward_end=norm(D) if cfg.placement == "sandwich" else None,
        biases=biases(),
        cross=cross_attention_weights(norm(D), N, K, H, gain, biases()) if cfg.cross else None,
    )
    return draw(key, block)


def initial_sink_logit(cfg: BlockConfig) -> float:
    """The sink logit of a block that is asked for none: -inf, or 0 where a key bias adds to it."""
    return 0.0 if cfg.key_bias else -jnp.inf


def _feedforward(cfg: BlockConfig, gain: float) -> FeedForward | Experts:
    bias = "feedforward" in cfg.biases
    if cfg.experts:
        return expert_weights(cfg.width, cfg.hidden, cfg.activation, gain, bias=bias, experts=cfg.experts)
    return feedforward_weights(cfg.width, cfg.hidden, cfg.activation, gain, bias=bias)


def _sink_bias(cfg: BlockConfig, dims: int) -> Any:
    """Drawn at 0.02 (model.linear.draw), as the K and KV biases of Gu et al. 2025."""
    return matrix((cfg.kv_heads, dims), GROUPS, dims, 0.02 * dims**0.5)
