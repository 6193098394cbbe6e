"""Perplexity by window length, with its conventions in the open."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def mean_loss(losses: Float[Array, "B T"], weights: Bool[Array, "B T"] | Float[Array, "B T"] | None = None) -> Float[Array, ""]:
    """Token-weighted mean loss [nats] over all positions, over those chosen, or weighted; exp of it is the perplexity."""
    if weights is None:
        return jnp.mean(losses)
    weights = weights.astype(losses.dtype)
    return jnp.sum(losses * weights) / jnp.sum(weights)


def last_loss(losses: Float[Array, "B T"], last: int) -> Float[Array, ""]:
    """Mean loss over the last positions of every window, where the context is longest: whole windows hide a failure there."""
    if last > losses.shape[1]:
        raise ValueError(f"the last {last} positions of a window of {losses.shape[1]}: measure fewer")
    return jnp.mean(losses[:, -last:])
