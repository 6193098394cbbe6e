"""Cross-attention: queries of a target, keys and values of a source (Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3)."""

from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float

from leadline.model.attention.attention import AttentionStatistics, attend_all
from leadline.model.attention.biases import Biases
from leadline.model.attention.blockwise import part_of
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores, grouped_queries
from leadline.model.linear import matrix, plus_bias, project, project_each
from leadline.model.mesh import HEADS, RESIDUAL, heads_first, place
from leadline.model.norm import Norm


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class CrossAttention:
    """Weights. `*L` is empty for one layer."""

    norm: Norm
    query: Float[Array, "*L D N H"]
    key: Float[Array, "*L D K H"]
    value: Float[Array, "*L D K H"]
    output: Float[Array, "*L N H D"]
    biases: Biases


@no_type_check
@struct.dataclass
class Memory:
    """What the layers of a decoder see of a source: keys and values, computed once. `*L` is empty for one layer."""

    key: Float[Array, "*L B K S H"]
    value: Float[Array, "*L B K S H"]
    padding: Bool[Array, "*L B S"]  # True for real tokens


def cross_attention_weights(
    norm: Norm, heads: int, kv_heads: int, head_dim: int, gain: float, biases: Biases
) -> CrossAttention:
    """The matrices, to be drawn by `model.linear.draw`.

    Args:
        norm: of the sublayer.
        heads: N.
        kv_heads: K.
        head_dim: H.
        gain: multiplies the scale of the output matrix.
        biases: of the products.
    """
    (D,), N, K, H = norm.scale.shape, heads, kv_heads, head_dim
    return CrossAttention(
        norm=norm,
        query=matrix((D, N, H), P("data", "model", None), D),
        key=matrix((D, K, H), P("data", "model", None), D),
        value=matrix((D, K, H), P("data", "model", None), D),
        output=matrix((N, H, D), P("model", None, "data"), N * H, gain),
        biases=biases,
    )


def memory_of(p: CrossAttention, x: Float[Array, "B S D"], padding: Bool[Array, "B S"]) -> Memory:
    """The keys and values of a source for every layer of a decoder.

    Args:
        p: weights, stacked over the layers of the decoder.
        x: what the encoder says of each token of the source.
        padding: True for real tokens.
    """

    def of_layer(layer: CrossAttention) -> Memory:
        products = project_each(x, (layer.key, layer.value), out_sharding=HEADS)
        biased = map(plus_bias, products, (layer.biases.key, layer.biases.value))
        key, value = (place(jnp.swapaxes(y, 1, 2), heads_first(4)) for y in biased)
        return Memory(key, value, padding)

    return jax.lax.map(of_layer, p)


def cross_attention(
    p: CrossAttention, h: Float[Array, "B T D"], memory: Memory, real: Bool[Array, "B T"] | None = None
) -> tuple[Float[Array, "B T D"], AttentionStatistics]:
    """o_i = Σ_j p_ij v_j over all real tokens j of a source, p_i = softmax_j(q_i·k_j / sqrt(H)).

    Args:
        p: weights of one layer.
        h: the input of the sublayer.
        memory: keys and values of the source for this layer.
        real: False for padded queries, which count in no statistic.

    Returns:
        The output of the sublayer, and statistics of p. `first` is the share of the first token of the source.
    """
    q = plus_bias(project(h, p.query, out_sharding=HEADS), p.biases.query)
    # A query sees the keys up to its position: at the last key it sees all of them.
    i = jnp.full(h.shape[1], memory.key.shape[2] - 1)
    q = grouped_queries(q, memory.key.shape[1])
    part = part_of(q, memory.key.astype(q.dtype), memory.value.astype(q.dtype), i, Mask(padding=memory.padding))
    o, statistics = attend_all((part,), i, Scores(), real)
    return plus_bias(project(o, p.output, contract=2, out_sharding=RESIDUAL), p.biases.output), statistics
