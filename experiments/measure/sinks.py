"""Attention sinks, from the attention that each query pays to the first token and that each key receives; dormant heads."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


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
        raise ValueError(f"no token at or behind {start}: the text has {norm.shape[1]}")
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
