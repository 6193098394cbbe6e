"""CoPE: contextual positions, sums of gates that depend on query and key (Golovneva et al. 2024)."""

from dataclasses import dataclass
from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float

from leadline.model.attention.scores import ScoreBias
from leadline.model.linear import zeros
from leadline.model.positions.relative import PositionBias


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class CopeBias:
    """Weights, shared by the heads of a layer. `*L` is empty for one layer."""

    embedding: Float[Array, "*L H positions"]


@dataclass(frozen=True)
class Cope(PositionBias):
    """CoPE: how many positions have a vector."""

    positions: int = 64

    def __post_init__(self) -> None:
        if self.positions < 2:
            raise ValueError(f"CoPE interpolates between positions: it needs at least 2, got {self.positions}")

    def init(self, key: Array, width: int, heads: int, head_dim: int) -> CopeBias:  # noqa: ARG002
        """Zeros, as in the authors' code: no position at first."""
        return CopeBias(embedding=zeros((head_dim, self.positions), P(None, None)))

    def score_bias(self, p: CopeBias, tokens: int) -> ScoreBias:  # noqa: ARG002
        return Partial(_score_bias, p)


def _score_bias(p: CopeBias, q: Array, scores: Array, _i: Array, _j: Array | None, visible: Bool[Array, "q S"]) -> Array:
    return cope_bias(p, q, scores, jnp.tile(visible, (q.shape[2] // visible.shape[0], 1)))


def cope_bias(
    p: CopeBias, q: Float[Array, "B K q H"], scores: Float[Array, "B K q S"], visible: Bool[Array, "q S"]
) -> Float[Array, "B K q S"]:
    """q_i · e[p_ij], p_ij = sum of the gates sigmoid(q_i · k_l) over l = j … i (Golovneva et al. 2024, arXiv:2405.18719).

    Added to the scores, of which the gates are functions. Keys that are not visible do not count. Positions end at the last
    embedding; between integer positions the products q · e are interpolated.

    Args:
        p: weights.
        q: queries, scaled by 1/sqrt(H) as in the authors' code. Rows may be those of several heads.
        scores: q · k of the scaled queries; keys are in the order of their positions.
        visible: which keys a query sees.

    Returns:
        float32 [B, K, q, S].
    """
    last = p.embedding.shape[-1] - 1
    gates = jnp.where(visible[None, None], jax.nn.sigmoid(scores.astype(jnp.float32)), 0)
    position = jnp.minimum(jax.lax.cumsum(gates, axis=3, reverse=True), last)
    products = jnp.einsum("BKqH,HP->BKqP", q, p.embedding.astype(q.dtype), preferred_element_type=jnp.float32)
    # Never the last embedding itself, so that there is always a next one.
    below = jnp.clip(jnp.floor(jax.lax.stop_gradient(position)).astype(jnp.int32), 0, last - 1)
    value, following = (jnp.take_along_axis(products, below + step, axis=3) for step in (0, 1))
    return value + (position - below.astype(jnp.float32)) * (following - value)
