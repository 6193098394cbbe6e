"""Massive activations and what gates let through."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def activation_ratio(residual: Float[Array, "B T D"]) -> Float[Array, ""]:
    """max |h| / median |h| over the tokens and channels of a sequence, a mean over sequences (after Sun et al. 2024, arXiv
    2402.17762, whose absolute threshold does not carry over to small models)."""
    size = jnp.abs(residual.astype(jnp.float32)).reshape(residual.shape[0], -1)
    return jnp.mean(jnp.max(size, axis=1) / jnp.median(size, axis=1))


def gate_mean(gate: Float[Array, "B T heads *channels"]) -> Float[Array, " heads"]:
    """Mean gate of each head, over tokens and channels."""
    return jnp.mean(gate, axis=(0, 1, *range(3, gate.ndim)))


def gate_share_under(gate: Float[Array, "B T heads *channels"], threshold: float) -> Float[Array, " heads"]:
    """Share of the gates of each head, over tokens and channels, that are below `threshold`: the sparsity of a gate."""
    return gate_mean((gate < threshold).astype(jnp.float32))
