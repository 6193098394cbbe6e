"""T5's relative position bias: one trained number per head for every bucket of distances."""

from dataclasses import dataclass, replace
from typing import no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from leadline.model.attention.scores import ScoreBias
from leadline.model.linear import matrix
from leadline.model.positions.relative import PositionBias, bias_of_distance, bias_of_offset


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class T5Bias:
    """Weights. `*L` is empty for one layer, and for one table of all layers, as T5 itself has it."""

    table: Float[Array, "*L buckets N"]


@dataclass(frozen=True)
class T5(PositionBias):
    """T5's encoding.

    Attributes:
        buckets: their number.
        furthest: the distance from which on they share the last one.
        both_ways: whether half of the buckets are those of keys after the query, as in an encoder.

    Raises:
        ValueError: for fewer than 2 buckets, or with `both_ways` fewer than 4 or an odd number.
    """

    buckets: int = 32
    furthest: int = 128
    both_ways: bool = False

    def __post_init__(self) -> None:
        if self.buckets < 2:
            raise ValueError(f"buckets = {self.buckets}: T5 needs at least 2")
        if self.both_ways and (self.buckets < 4 or self.buckets % 2):
            raise ValueError(f"buckets = {self.buckets}: T5 divides them into two halves of at least 2; give an even number")

    def init(self, key: Array, width: int, heads: int, head_dim: int) -> T5Bias:  # noqa: ARG002
        """A table drawn at 1/sqrt(D), as in T5."""
        return T5Bias(table=matrix((self.buckets, heads), P(None, "model"), width))

    def score_bias(self, p: T5Bias, tokens: int) -> ScoreBias:
        bias = t5_bias(p, tokens, furthest=self.furthest, both_ways=self.both_ways)
        return bias_of_offset(bias) if self.both_ways else bias_of_distance(bias)

    def of_encoder(self) -> "T5":
        return replace(self, both_ways=True)


def t5_buckets(
    distance: Int[Array, "*d"], *, buckets: int = 32, furthest: int = 128, both_ways: bool = False
) -> Int[Array, "*d"]:
    """The bucket of each distance d = i - j (Raffel et al. 2020, arXiv:1910.10683).

    With e = buckets // 2, distances below e have a bucket each; beyond, d falls into e + floor((buckets - e) ln(d / e) /
    ln(furthest / e)), and from `furthest` on into the last. The edges of the buckets are computed in integers on the host, so
    that no logarithm is rounded. An encoder has two such halves: with h = buckets // 2, the bucket is that of |d| among h, and
    h more where the key is after the query.

    Args:
        distance: [tokens]; negative ones fall into bucket 0, unless `both_ways`.
        buckets: their number.
        furthest: the distance from which on they share the last one.
        both_ways: whether half of the buckets are those of negative distances.

    Raises:
        ValueError: for fewer than two buckets in a half, or `furthest` <= e.
    """
    if both_ways:
        half = buckets // 2
        return t5_buckets(jnp.abs(distance), buckets=half, furthest=furthest) + jnp.where(distance < 0, half, 0)
    exact = buckets // 2
    edges = jnp.asarray(_edges(buckets, furthest), distance.dtype).reshape((1,) * distance.ndim + (-1,))
    passed = jnp.sum(distance[..., None] >= edges, axis=-1, dtype=distance.dtype)
    return jnp.clip(distance, 0, exact) + passed


def t5_bias(p: T5Bias, keys: int, *, furthest: int = 128, both_ways: bool = False) -> Float[Array, "N distances"]:
    """The bias of each head at distances 0 … keys - 1, or -(keys - 1) … keys - 1 both ways, to be laid out by `by_distance`.

    T5 adds it to q·k, which it does not divide by sqrt(H): its query projection is drawn that much smaller instead. The bias
    itself is the same number whichever of the two scores it is added to.
    """
    buckets, distance = p.table.shape[0], jnp.arange(1 - keys if both_ways else 0, keys)
    chosen = t5_buckets(distance, buckets=buckets, furthest=furthest, both_ways=both_ways)
    one_hot = (chosen[:, None] == jnp.arange(buckets)[None, :]).astype(p.table.dtype)
    # A product, since the gradient of a look-up is a scatter; the highest precision, since it must be the number itself.
    return jnp.einsum("bN,Sb->NS", p.table, one_hot, precision=jax.lax.Precision.HIGHEST)


def _edges(buckets: int, furthest: int) -> list[int]:
    """The smallest distance of each bucket after e: the least d with d^n e^k >= e^n furthest^k, n = buckets - e, 0 < k < n."""
    exact = buckets // 2
    if buckets < 2 or furthest <= exact:
        raise ValueError(f"T5 needs at least 2 buckets and furthest > {exact}, half of them; got {buckets} and {furthest}")
    steps = buckets - exact
    edges, edge = [], exact
    for k in range(1, steps):
        while edge**steps * exact**k < exact**steps * furthest**k:
            edge += 1
        edges.append(edge)
    return edges
