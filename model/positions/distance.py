"""A bias that depends on the distance alone, laid out for a block of query rows."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def by_distance(bias: Float[Array, "N S"], i: Int[Array, " q"]) -> Float[Array, "N q S"]:
    """Row r, column j gets bias[:, i[r] - j]; where j > i[r] it gets zero or any other number of `bias`.

    The queries are consecutive, i[r] = i[0] + r with 0 <= i[0] < S, and only i[0] is read: surplus rows behind the last query
    may hold any position. One row is one query against a cache. The rows are windows into the reversed vector, each one step
    left of the row above: copies of one window, flattened and cut again one number shorter. So the value gathers nothing, and
    the gradient is a sum, not a scatter.
    """
    rows, keys = i.shape[0], bias.shape[1]
    reversed_bias = jnp.pad(bias[:, ::-1], [(0, 0), (rows, keys)])
    width = keys + rows
    window = jax.lax.dynamic_slice_in_dim(reversed_bias, keys - i[0], width, axis=1)
    copies = jnp.broadcast_to(window[:, None, :], (bias.shape[0], rows, width))
    flat = copies.reshape(bias.shape[0], rows * width)
    shifted = jax.lax.slice_in_dim(flat, rows - 1, rows - 1 + rows * (width - 1), axis=1)
    return shifted.reshape(bias.shape[0], rows, width - 1)[:, :, :keys]
