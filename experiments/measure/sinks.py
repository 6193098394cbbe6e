"""Attention sinks, from the attention that each query pays to the first token and that each key receives; dormant heads; the
first key of a head, compared with the queries and with the other keys."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float

from leadline.model.mesh import place


def sink_rate(received: Float[Array, "B N S"], *, token: int, epsilon: float) -> Float[Array, " N"]:
    """Sink_k^ε of each head (Gu et al. 2025, arXiv:2410.10781): the share of sequences with

        α_k = 1/(T - k + 1) Σ_{i >= k} A_ik > ε.

    The indicator comes first, then the mean over sequences. Causal attention alone gives α_1 >= 1/T, because A_11 = 1.

    Args:
        received: Σ_i A_ik.
        token: k, from 1.
        epsilon: ε.

    Raises:
        ValueError: unless 1 <= token <= T.
    """
    tokens = received.shape[-1]
    if not 1 <= token <= tokens:
        raise ValueError(f"token {token} of the sink rate is not among the {tokens} tokens of the text")
    alpha = received[..., token - 1] / (tokens - token + 1)
    return jnp.mean((alpha > epsilon).astype(jnp.float32), axis=0)


def mean_mass(mass: Float[Array, "B N T"], queries: Bool[Array, "B T"] | None = None) -> Float[Array, " N"]:
    """Mean attention that each head pays, over queries or over those chosen; all sequences pooled."""
    if queries is None:
        return jnp.mean(mass, axis=(0, 2))
    chosen = queries.astype(mass.dtype)
    return jnp.sum(mass * chosen[:, None], axis=(0, 2)) / jnp.sum(chosen)


def mass_on(received: Float[Array, "B N S"], keys: Bool[Array, "B S"]) -> Float[Array, " N"]:
    """Mean attention that queries pay to the chosen keys, Σ_k received_k / T, a mean over sequences.

    Args:
        received: Σ_i A_ik.
        keys: which of them count.
    """
    return jnp.mean(jnp.sum(received, axis=-1, where=keys[:, None]), axis=0) / received.shape[-1]


def first_norm_ratio(norm: Float[Array, "B T *heads"], *, start: int) -> Float[Array, "*heads"]:
    """|x_0| / mean_{t >= start} |x_t|, a mean over sequences: what a sink does to its token.

    Of values [B, T, K] it is the value drain and of the residual stream [B, T] the residual peak (Guo et al. 2024,
    arXiv:2410.13835); of keys [B, T, K] it says how short the first one is (Gu et al. 2025, arXiv:2410.10781).

    Args:
        norm: |x_t|.
        start: first token that counts in the mean.

    Raises:
        ValueError: unless 0 <= start < T.
    """
    if not 0 <= start < norm.shape[1]:
        raise ValueError(f"start = {start} must be between 0 and {norm.shape[1] - 1}, the last token of the text")
    return jnp.mean(norm[:, 0] / jnp.mean(norm[:, start:], axis=1), axis=0)


def dormant_share(mass: Float[Array, "L N"], *, threshold: float) -> Float[Array, ""]:
    """Share of the heads that are dormant: their mean attention to the first token is above the threshold.

    After Guo et al. 2024, arXiv:2410.13835.

    Args:
        mass: `mean_mass` of the first token, by head.
        threshold: ε, from 0 to below 1.
    """
    return jnp.mean((mass > threshold).astype(jnp.float32))


def active_dormant_share(mass: Float[Array, "L N"], other_mass: Float[Array, "L N"], *, threshold: float) -> Float[Array, ""]:
    """Share of the heads that are dormant in exactly one of two domains, such as code and prose.

    Guo et al. 2024, arXiv:2410.13835, call them active-dormant. Arguments as in `dormant_share`, one mass for each domain.
    """
    return jnp.mean(((mass > threshold) != (other_mass > threshold)).astype(jnp.float32))


def key_cosines(
    query: Float[Array, "B T N H"], key: Float[Array, "B T K H"], *, start: int
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Mean cosines of queries with the first key and with the others.

        first = cos(q_t, k_0),      others = 1/t Σ_{1 <= j <= t} cos(q_t, k_j)

    Gu et al. 2025, arXiv:2410.10781: the first key of a sink is short, but its angle to the queries is small. The keys enter by
    the running mean of their directions, so memory is linear in T. A cosine with the zero vector counts as 0. float32.

    Args:
        query: rotated, as in the scores. Query head n reads key head n // (N / K).
        key: rotated.
        start: the mean is over sequences and queries t >= start.

    Returns:
        The mean cosines of the queries of each head with the first key, and with the later keys.

    Raises:
        ValueError: if N is no multiple of K, or unless 1 <= start < T (query 0 sees no other key).
    """
    _check_start(start, 1, key.shape[1])
    q, k = (_unit(x) for x in _grouped(query, key))
    q = q[:, start:]
    return _mean_product(q, k[:, :1]), _mean_product(q, _running_means(k)[:, start - 1 :])


def logit_gap(
    query: Float[Array, "B T N H"], key: Float[Array, "B T K H"], *, scale: float | Float[Array, ""], start: int
) -> Float[Array, " N"]:
    """Mean logit of the first token above those of the tokens between it and the query.

        Δ_t = s_t0 - 1/(t - 1) Σ_{1 <= j < t} s_tj,      s_tj = scale · q_t·k_j

    Guo et al. 2024, arXiv:2410.13835. What a model adds to the products is not in it. Δ_t is one product with k_0 less the
    running mean of the keys, so memory is linear in T. float32.

    Args:
        query: rotated, as in the scores. Query head n reads key head n // (N / K).
        key: rotated.
        scale: of the products.
        start: the mean is over sequences and queries t >= start.

    Raises:
        ValueError: if N is no multiple of K, or unless 2 <= start < T (query 1 has no key between).
    """
    _check_start(start, 2, key.shape[1])
    q, k = _grouped(query, key)
    return scale * _mean_product(q[:, start:], k[:, :1] - _running_means(k)[:, start - 2 : -1])


def share_outside(key: Float[Array, "B T K H"], *, energy: float = 0.95) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Share of the first key's squared length outside the subspace of the other keys, a mean over sequences.

        |k_0 - P k_0|² / |k_0|²

    P projects on the leading eigenvectors of the second moment Σ k_t k_tᵀ over t >= 1 and all sequences: the fewest that hold
    at least `energy` of its trace. The other keys have at most 1 - energy of their squared length outside, so a first key with
    much more points elsewhere. Compare Gu et al. 2025, arXiv:2410.10781, Table 13: one learned dimension of a key bias is
    enough for a third of the heads. NaN where k_0 = 0. float32.

    Args:
        key: of all tokens.
        energy: share of the trace that the subspace holds.

    Returns:
        Of each key head, that share of the first key and the dimensions of the subspace.

    Raises:
        ValueError: for T = 1, and unless 0 < energy < 1 (rounding decides which directions hold nothing at all).
    """
    if key.shape[1] < 2:
        raise ValueError("a text of one token has no keys beside the first")
    if not 0 < energy < 1:
        raise ValueError(f"the share of energy, {energy}, is not between 0 and 1")
    key = key.astype(jnp.float32)
    others, exact = key[:, 1:], jax.lax.Precision.HIGHEST
    # By sequence first: a product may not contract an axis that is sharded.
    moment = jnp.sum(jnp.einsum("BTKH,BTKI->BKHI", others, others, precision=exact), axis=0)
    # A head at a time: jaxlib 0.10 divides a batch among the threads of the CPU, and two devices that do so at once wait for
    # each other for ever.
    decomposed = jax.lax.map(jnp.linalg.eigh, place(moment, P(None, None, None)))
    eigenvalues, directions = (x[..., ::-1] for x in decomposed)  # the largest first
    held = jnp.cumsum(eigenvalues, axis=-1)
    dims = 1 + jnp.sum(held < energy * held[:, -1:], axis=-1)
    outside = jnp.arange(key.shape[-1])[None, :] >= dims[:, None]
    along = jnp.square(jnp.einsum("BKH,KHI->BKI", key[:, 0], directions, precision=exact))
    share = jnp.sum(jnp.where(outside[None], along, 0), axis=-1) / jnp.sum(along, axis=-1)
    return jnp.mean(share, axis=0), dims.astype(jnp.float32)


def _check_start(start: int, least: int, tokens: int) -> None:
    if not least <= start < tokens:
        raise ValueError(f"start = {start} must be between {least} and {tokens - 1} in a text of {tokens} tokens")


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
