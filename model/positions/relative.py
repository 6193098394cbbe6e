"""Relative position encodings that add to the scores: T5, KERPLE, FIRE and CoPE, as a `ScoreBias` for attention."""

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from leadline.model.attention.scores import ScoreBias
from leadline.model.mesh import ROWS_OF_GROUPS, on_mesh
from leadline.model.positions.cope import Cope, cope_bias, init_cope
from leadline.model.positions.distance import (
    Kerple,
    T5Bias,
    init_kerple,
    init_t5_bias,
    kerple_logarithmic,
    kerple_power,
    t5_bias,
)
from leadline.model.positions.fire import Fire, fire_bias, init_fire

Kind = Literal["t5", "kerple_logarithmic", "kerple_power", "fire", "cope"]
Bias = T5Bias | Kerple | Fire | Cope


@dataclass(frozen=True)
class BiasConfig:
    """The encoding and its sizes."""

    kind: Kind
    buckets: int = 32  # T5: of distances
    furthest: int = 128  # T5: the distance from which on they share the last one
    hidden: int = 32  # FIRE: of its network
    positions: int = 64  # CoPE: that have a vector


def init_bias(key: Array, cfg: BiasConfig, width: int, heads: int, head_dim: int) -> Bias:
    """Weights of one layer, with placeholders for `model.linear.draw`."""
    match cfg.kind:
        case "t5":
            return init_t5_bias(heads, width, buckets=cfg.buckets)
        case "kerple_logarithmic" | "kerple_power":
            return init_kerple(key, heads, power=cfg.kind == "kerple_power")
        case "fire":
            return init_fire(heads, hidden=cfg.hidden)
        case "cope":
            return init_cope(head_dim, cfg.positions)


def score_bias(p: Any, cfg: BiasConfig, tokens: int) -> ScoreBias:
    """The bias of attention over `tokens` keys.

    Args:
        p: the weights that `init_bias` makes for `cfg`.
        cfg: the encoding.
        tokens: more than the largest distance.
    """
    match cfg.kind:
        case "cope":
            return Partial(_cope, p)
        case "fire":
            return Partial(_fire, p)
        case "t5":
            return Partial(_of_distance, t5_bias(p, tokens, furthest=cfg.furthest))
        case "kerple_logarithmic":
            return Partial(_of_distance, kerple_logarithmic(p, tokens))
        case "kerple_power":
            return Partial(_of_distance, kerple_power(p, tokens))


def _cope(p: Cope, q: Array, scores: Array, _i: Array, _j: Array | None, visible: Bool[Array, "q S"]) -> Array:
    return cope_bias(p, q, scores, jnp.tile(visible, (q.shape[2] // visible.shape[0], 1)))


def _fire(p: Fire, q: Array, scores: Array, i: Array, j: Array | None, _visible: Array) -> Array:
    return _grouped(fire_bias(p, i, jnp.arange(scores.shape[-1]) if j is None else j), q)


def _of_distance(bias: Float[Array, "N S"], q: Array, scores: Array, i: Array, j: Array | None, _visible: Array) -> Array:
    if j is None:
        return _grouped(by_distance(bias[:, : scores.shape[-1]], i), q)
    return _grouped(bias[:, jnp.clip(i[:, None] - j[None, :], 0, bias.shape[1] - 1)], q)


def _grouped(bias: Float[Array, "N q S"], q: Array) -> Float[Array, "1 K R S"]:
    """The bias of every query head as rows of its key/value head."""
    return bias.reshape(1, q.shape[1], q.shape[2], -1, out_sharding=on_mesh(ROWS_OF_GROUPS))


def by_distance(bias: Float[Array, "N S"], i: Int[Array, " q"]) -> Float[Array, "N q S"]:
    """Row r, column j gets bias[:, i[r] - j]; where j > i[r] it gets zero or any other number of `bias`.

    The rows are windows into the reversed vector, each one step left of the row above: copies of one window, flattened and cut
    again one number shorter. So the value is no gather, and the gradient is a sum instead of a scatter.

    Args:
        bias: of each head and distance.
        i: positions of consecutive queries, i[r] = i[0] + r with 0 <= i[0] < S. Only i[0] is read: surplus rows behind the last
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
