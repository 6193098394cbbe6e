"""Relative position encodings that add to the scores, as a `ScoreBias` for attention: what T5, KERPLE, FIRE and CoPE share."""

from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int

from leadline.model.attention.scores import ScoreBias
from leadline.model.mesh import ROWS_OF_GROUPS, on_mesh


class PositionBias(ABC):
    """An encoding with its sizes: a frozen dataclass, since it is part of the structure of a model."""

    @abstractmethod
    def init(self, key: Array, width: int, heads: int, head_dim: int) -> Any:
        """Weights of one layer, with placeholders for `model.linear.draw`."""

    @abstractmethod
    def score_bias(self, p: Any, tokens: int) -> ScoreBias:
        """The bias of attention with the weights `p` over `tokens` keys, more than the largest distance."""

    def of_encoder(self) -> "PositionBias":
        """The encoding where tokens see those after them too. ValueError for one that counts distances backwards alone."""
        raise ValueError(f"{type(self).__name__} counts distances backwards, and an encoder sees both ways: take T5")


def bias_of_distance(bias: Float[Array, "N S"]) -> ScoreBias:
    """The `ScoreBias` of a bias that depends on the head and the distance i - j alone."""
    return Partial(_of_distance, bias)


def _of_distance(bias: Float[Array, "N S"], q: Array, scores: Array, i: Array, j: Array | None, _visible: Array) -> Array:
    if j is None:
        return grouped(by_distance(bias[:, : scores.shape[-1]], i), q)
    return grouped(bias[:, jnp.clip(i[:, None] - j[None, :], 0, bias.shape[1] - 1)], q)


def bias_of_offset(bias: Float[Array, "N offsets"]) -> ScoreBias:
    """The `ScoreBias` of S tokens that see each other both ways: of each head and offset i - j = -(S - 1) … S - 1."""
    return Partial(_of_offset, bias)


def _of_offset(bias: Float[Array, "N offsets"], q: Array, scores: Array, i: Array, j: Array | None, _visible: Array) -> Array:
    if j is not None:
        offset = i[:, None] - j[None, :] + bias.shape[1] // 2
        return grouped(bias[:, jnp.clip(offset, 0, bias.shape[1] - 1)], q)
    return grouped(by_distance(bias, i + bias.shape[1] // 2)[..., : scores.shape[-1]], q)


def grouped(bias: Float[Array, "N q S"], q: Array) -> Float[Array, "1 K R S"]:
    """The bias of every query head as rows of its key/value head."""
    return bias.reshape(1, q.shape[1], q.shape[2], -1, out_sharding=on_mesh(ROWS_OF_GROUPS))


def by_distance(bias: Float[Array, "N S"], i: Int[Array, " q"]) -> Float[Array, "N q S"]:
    """Row r, column j gets bias[:, i[r] - j]; where j > i[r] it gets zero or any other number of `bias`.

    The rows are windows into the reversed vector, each one step left of the row above: copies of one window, flattened and cut
    again one number shorter. So the value is no gather, and the gradient is a sum instead of a scatter.

    Args:
        bias: of each head and distance.
        i: positions of consecutive queries, i[r] = i[0] + r with 0 <= i[0] < S. Only i[0] is read: surplus rows after the last
            query may hold any position.
    """
    rows, keys = i.shape[0], bias.shape[1]
    reversed_bias = jnp.pad(bias[:, ::-1], [(0, 0), (rows, keys)])
    width = keys + rows
    window = jax.lax.dynamic_slice_in_dim(reversed_bias, keys - i[0], width, axis=1)
    copies = jnp.broadcast_to(window[:, None, :], (bias.shape[0], rows, width))
    flat = copies.reshape(bias.shape[0], rows * width)
    shifted = jax.lax.slice_in_dim(flat, rows - 1, rows - 1 + rows * (width - 1), axis=1)
    return shifted.reshape(bias.shape[0], rows, width - 1)[:, :, :keys]
