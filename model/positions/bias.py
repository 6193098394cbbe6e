"""The position encodings that add to the scores, behind one interface for attention."""

from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float

from model.positions.cope import Cope, cope_bias, init_cope
from model.positions.distance import by_distance
from model.positions.fire import Fire, fire_bias, init_fire
from model.positions.kerple import Kerple, init_kerple, kerple_logarithmic, kerple_power
from model.positions.t5 import T5Bias, init_t5_bias, t5_bias
from model.rows import ScoreBias

Kind = Literal["t5", "kerple_logarithmic", "kerple_power", "fire", "cope"]
Bias = T5Bias | Kerple | Fire | Cope


@dataclass(frozen=True)
class BiasConfig:
    """Which one, and the sizes of those that have any."""

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
    """What attention over `tokens` keys adds to its scores; `p` are the weights that `init_bias` makes for `cfg`."""
    match cfg.kind:
        case "cope":
            return lambda q, scores, i, visible: cope_bias(p, q, scores, _of_rows(visible, q))  # noqa: ARG005
        case "fire":
            return lambda q, scores, i, visible: _grouped(fire_bias(p, i, scores.shape[-1]), q)  # noqa: ARG005
        case "t5":
            distances = t5_bias(p, tokens, furthest=cfg.furthest)
        case "kerple_logarithmic":
            distances = kerple_logarithmic(p, tokens)
        case "kerple_power":
            distances = kerple_power(p, tokens)
    return lambda q, scores, i, visible: _grouped(by_distance(distances[:, : scores.shape[-1]], i), q)  # noqa: ARG005


def _grouped(bias: Float[Array, "N q S"], q: Array) -> Float[Array, "1 K R S"]:
    """Of every query head, as the rows of its key/value head."""
    return bias.reshape(1, q.shape[1], q.shape[2], -1, out_sharding=P(None, "model", None, None))


def _of_rows(visible: Bool[Array, "q S"], q: Array) -> Bool[Array, "R S"]:
    return jnp.tile(visible, (q.shape[2] // visible.shape[0], 1))
