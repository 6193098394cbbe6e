"""Biases of the distance alone: ALiBi's slopes, KERPLE's kernels, T5's buckets. `model.positions.relative` lays them out."""

from typing import no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from leadline.model.linear import matrix
from leadline.model.mesh import place

LEAST = 0.01  # KERPLE: the authors' code keeps its parameters at or above this


def alibi_slopes(heads: int) -> NDArray[np.float64]:
    """m_n = 2^(-8 n / N), n = 1 … N, for N a power of two (Press et al. 2022, arXiv:2108.12409); scores get -m_n (i - j).

    Otherwise the slopes of the largest power of two below N, then every second slope of twice that power, as its authors do.
    Returns float64 [N]. ValueError for no heads.
    """
    if heads < 1:
        raise ValueError(f"ALiBi needs at least one head, got {heads}")
    power = 2 ** (heads.bit_length() - 1)
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-8.0 * np.arange(1, 2 * power, 2) / (2 * power))
    return np.concatenate([slopes, between])[:heads]


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Kerple:
    """Unbounded weights of a conditionally positive definite kernel, of which p and a below are functions.

    `*L` is empty for one layer.
    """

    scale: Float[Array, "*L N"]
    shape: Float[Array, "*L N"]


def init_kerple(key: Array, heads: int, *, power: bool = False) -> Kerple:
    """The published initialisation, p ~ U(0, 2) and a ~ U(0, 1), at least `LEAST` as in the authors' code.

    p is the factor of the logarithm and the exponent of the power; a is the rate of the logarithm and the factor of the power.
    """
    first, second = jax.random.uniform(key, (2, heads))
    if power:
        # At 2 itself the weight would be infinite: the exponent is kept as far from there as from 0.
        half = jnp.clip(second, LEAST / 2, 1 - LEAST / 2)
        scale, shape = jnp.log(jnp.maximum(first, LEAST)), jnp.log(half) - jnp.log1p(-half)
    else:
        scale, shape = jnp.log(jnp.maximum(2 * first, LEAST)), jnp.log(jnp.maximum(second, LEAST))
    return Kerple(scale=place(scale, P("model")), shape=place(shape, P("model")))


def kerple_logarithmic(p: Kerple, keys: int) -> Float[Array, "N S"]:
    """-p ln(1 + a d) at distances d = 0 … keys - 1, p = e^scale, a = e^shape (Chi et al. 2022, arXiv:2205.09921).

    For `by_distance`. The authors' code clamps p and a at 0.01 in place at every step, which no gradient sees; here they are
    positive by their form, and every gradient is that of the value.
    """
    distance = jnp.arange(keys, dtype=jnp.float32)[None, :]
    return -jnp.exp(p.scale)[:, None] * jnp.log1p(jnp.exp(p.shape)[:, None] * distance)


def kerple_power(p: Kerple, keys: int) -> Float[Array, "N S"]:
    """-a d^p at distances d = 0 … keys - 1, a = e^scale, p = 2 / (1 + e^-shape) in (0, 2] (Chi et al. 2022, arXiv:2205.09921).

    For `by_distance`. The authors' code clamps a at 0.01 and p to [0.01, 2] in place, see `kerple_logarithmic`.
    """
    distance = jnp.arange(keys, dtype=jnp.float32)[None, :]
    # ln 0 would make the gradient at distance 0 a NaN.
    powers = jnp.exp(2 * jax.nn.sigmoid(p.shape)[:, None] * jnp.log(jnp.maximum(distance, 1)))
    return -jnp.exp(p.scale)[:, None] * jnp.where(distance > 0, powers, 0)


@no_type_check
@struct.dataclass
class T5Bias:
    """A trained number for each bucket of distances and head. `*L` is empty for one layer; T5 itself has one for all layers."""

    table: Float[Array, "*L buckets N"]


def init_t5_bias(heads: int, width: int, *, buckets: int = 32) -> T5Bias:
    """A table drawn at 1/sqrt(D), as in T5. ValueError for fewer than two buckets."""
    if buckets < 2:
        raise ValueError(f"T5 needs at least 2 buckets, got {buckets}")
    return T5Bias(table=matrix((buckets, heads), P(None, "model"), width))


def t5_buckets(distance: Int[Array, "*d"], *, buckets: int = 32, furthest: int = 128) -> Int[Array, "*d"]:
    """The causal bucket of each distance i - j (Raffel et al. 2020, arXiv:1910.10683).

    With e = buckets // 2, distances below e have a bucket each; beyond, d falls into e + floor((buckets - e) ln(d / e) /
    ln(furthest / e)), and from `furthest` on into the last. The edges of the buckets are computed in integers on the host, so
    that no logarithm is rounded.

    Args:
        distance: [tokens]; negative ones fall into bucket 0.
        buckets: their number.
        furthest: the distance from which on they share the last one.

    Raises:
        ValueError: for fewer than two buckets, or `furthest` <= e.
    """
    exact = buckets // 2
    edges = jnp.asarray(_edges(buckets, furthest), distance.dtype).reshape((1,) * distance.ndim + (-1,))
    passed = jnp.sum(distance[..., None] >= edges, axis=-1, dtype=distance.dtype)
    return jnp.clip(distance, 0, exact) + passed


def t5_bias(p: T5Bias, keys: int, *, furthest: int = 128) -> Float[Array, "N S"]:
    """The bias of each head at distances 0 … keys - 1, to be laid out by `by_distance`.

    T5 adds it to q·k, which it does not divide by sqrt(H): its query projection is drawn that much smaller instead. The bias
    itself is the same number whichever of the two scores it is added to.
    """
    buckets = p.table.shape[0]
    chosen = t5_buckets(jnp.arange(keys), buckets=buckets, furthest=furthest)
    one_hot = (chosen[:, None] == jnp.arange(buckets)[None, :]).astype(p.table.dtype)
    # A product, since the gradient of a look-up is a scatter; the highest precision, since it must be the number itself.
    return jnp.einsum("bN,Sb->NS", p.table, one_hot, precision=jax.lax.Precision.HIGHEST)


def _edges(buckets: int, furthest: int) -> list[int]:
    """The smallest distance of each bucket behind e: the least d with d^n e^k >= e^n furthest^k, n = buckets - e, 0 < k < n."""
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
