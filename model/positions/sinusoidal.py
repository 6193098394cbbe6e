"""Sinusoidal absolute positions."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from model.positions.phase import angles, fixed_point
from model.positions.rope_scaling import inverse_frequencies


def sinusoidal(positions: Int[Array, " T"], width: int, *, base: float = 10000.0) -> Float[Array, "T D"]:
    """Channels (2i, 2i + 1) are (sin(t w_i), cos(t w_i)), w_i = b^(-2i/D) (Vaswani et al. 2017, arXiv 1706.03762).

    To be added to the embeddings. A shift of the positions by k rotates each pair by k w_i. float32, with the angles of
    model.positions.phase, which are exact far out. ValueError for an odd width or a base <= 0.
    """
    if width < 2 or width % 2:
        raise ValueError(f"sinusoidal positions fill pairs of channels: width {width} must be even and at least 2")
    turned = angles(positions[:, None], fixed_point(inverse_frequencies(width, base)[None]))
    return jnp.stack([jnp.sin(turned), jnp.cos(turned)], axis=-1).reshape(positions.shape[0], width)
