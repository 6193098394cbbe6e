"""Attention sinks, from what each query gives to the first token and what each key receives."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def sink_rate(received: Float[Array, "B N S"], *, token: int, epsilon: float) -> Float[Array, " N"]:
    """Sink_k^ε of each head (Gu et al. 2025, arXiv 2410.10781): the share of sequences with

        α_k = 1/(T - k + 1) Σ_{i >= k} A_ik > ε.

    The indicator comes first, then the mean over sequences. `received` is Σ_i A_ik, `token` is k from 1. Causal attention
    alone gives α_1 >= 1/T, because A_11 = 1.
    """
    tokens = received.shape[-1]
    if not 1 <= token <= tokens:
        raise ValueError(f"token {token} of the sink rate is not among the {tokens} tokens of the text")
    alpha = received[..., token - 1] / (tokens - token + 1)
    return jnp.mean((alpha > epsilon).astype(jnp.float32), axis=0)


def mean_mass(mass: Float[Array, "B N T"], queries: Bool[Array, "B T"] | None = None) -> Float[Array, " N"]:
    """Mean over queries, or over those chosen, of the probability that each head gives away; all sequences pooled."""
    if queries is None:
        return jnp.mean(mass, axis=(0, 2))
    chosen = queries.astype(mass.dtype)
    return jnp.sum(mass * chosen[:, None], axis=(0, 2)) / jnp.sum(chosen)


def first_norm_ratio(norm: Float[Array, "B T *heads"], *, start: int) -> Float[Array, "*heads"]:
    """|x_0| / mean_{t >= start} |x_t| from the norms of x, a mean over sequences: what a sink does to its token.

    Of values [B, T, K] the value drain, of the residual stream [B, T] its peak (Guo et al. 2024, arXiv 2410.13835), of keys
    [B, T, K] how small the first one is (Gu et al. 2025, arXiv 2410.10781). Raises ValueError unless 0 <= start < T.
    """
    if not 0 <= start < norm.shape[1]:
        raise ValueError(f"no token at or behind {start}: the text has {norm.shape[1]}")
    return jnp.mean(norm[:, 0] / jnp.mean(norm[:, start:], axis=1), axis=0)
