"""Why a head gives to the first token: its key beside the queries, and beside the keys of the others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class KeyCosines(NamedTuple):
    """Mean cosines of the queries of each head."""

    first: Float[Array, " N"]  # with the first key
    others: Float[Array, " N"]  # with the keys behind it


class KeySubspace(NamedTuple):
    """The first key of each key head beside the subspace of the others."""

    share: Float[Array, " K"]  # of its squared length outside
    dims: Float[Array, " K"]  # dimensions of the subspace


def key_cosines(query: Float[Array, "B T N H"], key: Float[Array, "B T K H"], *, start: int) -> KeyCosines:
    """Mean over sequences and queries t >= start of

        first = cos(q_t, k_0),      others = 1/t Σ_{1 <= j <= t} cos(q_t, k_j)

    (Gu et al. 2025, arXiv 2410.10781: the first key of a sink is short, but its angle to the queries is small). Query head n
    reads key head n // (N / K). They are compared as they are given: turned, if the scores are to be explained. A cosine with
    the vector of zeros counts as 0. The keys enter by the running mean of their directions, so memory is linear in T. float32.

    Raises ValueError if N is no multiple of K, or unless 1 <= start < T: query 0 sees no other key.
    """
    _check_start(start, 1, key.shape[1])
    q, k = (_unit(x) for x in _grouped(query, key))
    q = q[:, start:]
    return KeyCosines(first=_mean_product(q, k[:, :1]), others=_mean_product(q, _running_means(k)[:, start - 1 :]))


def logit_gap(
    query: Float[Array, "B T N H"], key: Float[Array, "B T K H"], *, scale: float | Float[Array, ""], start: int
) -> Float[Array, " N"]:
    """Mean over sequences and queries t >= start of what the first token's logit has over those before the query's own,

        Δ_t = s_t0 - 1/(t - 1) Σ_{1 <= j < t} s_tj,      s_tj = scale · q_t·k_j

    (Guo et al. 2024, arXiv 2410.13835). Query head n reads key head n // (N / K); queries and keys are those that the scores
    are products of, turned, and nothing that is added to these is in it. Δ_t is one product with k_0 less the running mean of
    the keys, so memory is linear in T. float32.

    Raises ValueError if N is no multiple of K, or unless 2 <= start < T: query 1 has no key between the first and its own.
    """
    _check_start(start, 2, key.shape[1])
    q, k = _grouped(query, key)
    return scale * _mean_product(q[:, start:], k[:, :1] - _running_means(k)[:, start - 2 : -1])


def share_outside(key: Float[Array, "B T K H"], *, kept: float = 0.95) -> KeySubspace:
    """How far the first key of a head is outside the subspace of its other keys, a mean over sequences:

        |k_0 - P k_0|² / |k_0|²

    with P the projector on the leading eigenvectors of Σ k_t k_tᵀ over t >= 1 and all sequences (their second moment, about 0),
    the fewest that hold at least `kept` of its trace. The other keys, pooled, have at most 1 - kept of their squared length
    there; a first key that has much more points where they do not. (Compare Gu et al. 2025, arXiv 2410.10781, Table 13: of a K
    bias one learned dimension is enough for a third of the heads to rest on it.) NaN where k_0 = 0. float32.

    Raises ValueError for T = 1, and unless 0 < kept < 1: rounding decides which directions hold nothing at all.
    """
    if key.shape[1] < 2:
        raise ValueError("a text of one token has no keys beside the first")
    if not 0 < kept < 1:
        raise ValueError(f"the share of energy kept, {kept}, is not between 0 and 1")
    key = key.astype(jnp.float32)
    others, exact = key[:, 1:], jax.lax.Precision.HIGHEST
    # By sequence first: a product may not contract an axis that is sharded.
    moment = jnp.sum(jnp.einsum("BTKH,BTKI->BKHI", others, others, precision=exact), axis=0)
    energy, directions = (x[..., ::-1] for x in jnp.linalg.eigh(moment))  # the largest first
    held = jnp.cumsum(energy, axis=-1)
    dims = 1 + jnp.sum(held < kept * held[:, -1:], axis=-1)
    outside = jnp.arange(key.shape[-1])[None, :] >= dims[:, None]
    along = jnp.square(jnp.einsum("BKH,KHI->BKI", key[:, 0], directions, precision=exact))
    share = jnp.sum(jnp.where(outside[None], along, 0), axis=-1) / jnp.sum(along, axis=-1)
    return KeySubspace(share=jnp.mean(share, axis=0), dims=dims.astype(jnp.float32))


def _check_start(start: int, least: int, tokens: int) -> None:
    if not least <= start < tokens:
        raise ValueError(f"queries from {start} on: the first may be from {least} to {tokens - 1} in a text of {tokens} tokens")


def _grouped(
    query: Float[Array, "B T N H"], key: Float[Array, "B T K H"]
) -> tuple[Float[Array, "B T K G H"], Float[Array, "B T K 1 H"]]:
    """The G query heads of a key head beside it."""
    batch, tokens, heads, width = query.shape
    groups = key.shape[2]
    if heads % groups:
        raise ValueError(f"{heads} query heads cannot share {groups} key heads: it must divide them")
    query = query.reshape(batch, tokens, groups, heads // groups, width)
    return query.astype(jnp.float32), key[:, :, :, None].astype(jnp.float32)


def _unit(x: Float[Array, "*B H"]) -> Float[Array, "*B H"]:
    size = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.where(size == 0, 1, size)


def _running_means(key: Float[Array, "B T K 1 H"]) -> Float[Array, "B T-1 K 1 H"]:
    """Entry i is the mean of keys 1 … i + 1."""
    count = jnp.arange(1, key.shape[1], dtype=jnp.float32)
    return jnp.cumsum(key[:, 1:], axis=1) / count[None, :, None, None, None]


def _mean_product(query: Float[Array, "B t K G H"], key: Float[Array, "B #t K 1 H"]) -> Float[Array, " N"]:
    """Mean of q·k of each query head over sequences and queries."""
    return jnp.mean(jnp.sum(query * key, axis=-1), axis=(0, 1)).reshape(-1)
