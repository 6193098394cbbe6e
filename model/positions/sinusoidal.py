"""Sinusoidal absolute positions."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from model.positions.rope_scaling import inverse_frequencies


def sinusoidal(positions: Int[Array, " T"], width: int, *, base: float = 10000.0) -> Float[Array, "T D"]:
    """Channels (2i, 2i + 1) are (sin(t w_i), cos(t w_i)), w_i = b^(-2i/D) (Vaswani et al. 2017, arXiv 1706.03762).

    A shift of the positions by k rotates each pair by k w_i. float32. ValueError for an odd width or a base <= 0.
    """
    frequencies = jnp.asarray(inverse_frequencies(width, base), jnp.float32)
    turned = positions.astype(jnp.float32)[:, None] * frequencies[None, :]
    return jnp.stack([jnp.sin(turned), jnp.cos(turned)], axis=-1).reshape(positions.shape[0], width)
