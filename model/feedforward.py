"""Feed-forward layers: SwiGLU, GELU, ReLU."""

from typing import Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from leadline.model.linear import matrix, project, project_each
from leadline.model.mesh import HIDDEN, RESIDUAL

Activation = Literal["swiglu", "gelu", "relu"]


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class FeedForward:
    """Weights; `gate` only for the gated kind."""

    up: Float[Array, "*L D F"]
    gate: Float[Array, "*L D F"] | None
    down: Float[Array, "*L F D"]


def feedforward_weights(width: int, hidden: int, activation: Activation, gain: float) -> FeedForward:
    """The matrices, to be drawn by `model.linear.draw`.

    Args:
        width: D.
        hidden: F.
        activation: "swiglu" has a gate matrix.
        gain: multiplies the scale of the output matrix.
    """
    return FeedForward(
        up=matrix((width, hidden), P("data", "model"), width),
        gate=matrix((width, hidden), P("data", "model"), width) if activation == "swiglu" else None,
        down=matrix((hidden, width), P("model", "data"), hidden, gain),
    )


def feedforward(p: FeedForward, x: Float[Array, "B T D"], activation: Activation) -> Float[Array, "B T D"]:
    """f(x·up)·down, or (silu(x·gate) ⊙ x·up)·down for "swiglu" (Shazeer 2020, arXiv:2002.05202). GELU is the exact one.

    Raises:
        ValueError: for "swiglu" without a gate matrix.
    """
    h, *gate = project_each(x, (p.up,) if p.gate is None else (p.up, p.gate), out_sharding=HIDDEN)
    match activation:
        case "swiglu":
            if p.gate is None:
                raise ValueError("swiglu needs a gate matrix: initialise the feed-forward with activation='swiglu'")
            h = jax.nn.silu(gate[0]) * h
        case "gelu":
            h = 0.5 * h * (1 + jax.lax.erf(h * 0.5**0.5))
        case "relu":
            h = jnp.maximum(h, 0)
    return project(h, p.down, out_sharding=RESIDUAL)
