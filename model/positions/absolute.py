"""Absolute positions, which are added to the embeddings: learned and sinusoidal."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.model.mesh import RESIDUAL, on_mesh
from leadline.model.positions.angles import angles, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies


def add_positions(
    x: Float[Array, "B T D"], table: Float[Array, "C D"], positions: Int[Array, " T"], starts: Int[Array, " B"] | None = None
) -> Float[Array, "B T D"]:
    """x + table[positions] (Gehring et al. 2017, arXiv:1705.03122).

    Args:
        x: embeddings.
        table: learned.
        positions: places in the rows.
        starts: the place of position 0 in each row, after padding; None is 0.

    Raises:
        ValueError: for a text longer than the table, whose last positions were never trained.
    """
    if positions.shape[0] > table.shape[0]:
        raise ValueError(f"learned positions end at {table.shape[0]}, the text has {positions.shape[0]} tokens")
    if starts is None:
        return x + table[positions][None].astype(x.dtype)
    places = jnp.maximum(positions[None] - starts[:, None], 0)
    return x + table.at[places].get(out_sharding=on_mesh(RESIDUAL)).astype(x.dtype)


def sinusoidal(positions: Int[Array, " T"], width: int) -> Float[Array, "T D"]:
    """Channels (2i, 2i + 1) are (sin(t w_i), cos(t w_i)), w_i = 10000^(-2i/D) (Vaswani et al. 2017, arXiv:1706.03762).

    They are added to the embeddings. A shift of the positions by k rotates each pair by k w_i.

    Args:
        positions: t [tokens].
        width: D.

    Returns:
        float32 [T, D], from angles that are exact at any position (model.positions.angles).

    Raises:
        ValueError: for an odd width.
    """
    if width < 2 or width % 2:
        raise ValueError(f"sinusoidal positions fill pairs of channels: width {width} must be even and at least 2")
    theta = angles(positions[:, None], fixed_point(inverse_frequencies(width, 10000.0)[None]))
    return jnp.stack([jnp.sin(theta), jnp.cos(theta)], axis=-1).reshape(positions.shape[0], width)
