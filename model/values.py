"""What of attention is a value besides its positions: swept, and never compiled in."""

from typing import no_type_check

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class AttentionValues:
    """One row a layer. What a block does not have ignores its own."""

    scale: Float[Array, "*L"]  # multiplies q·k / sqrt(H): 1 / temperature
    cap: Float[Array, "*L"]
    clip: Float[Array, "*L 2"]  # low and high, model.kernels.clipped
    sigmoid_bias: Float[Array, "*L"]
    gate: Float[Array, "*L 2"]  # low and high, model.gating


def attention_values(
    layers: int,
    *,
    scale: float = 1.0,
    cap: float = jnp.inf,
    clip: tuple[float, float] = (0.0, 1.0),
    sigmoid_bias: float = 0.0,
    gate: tuple[float, float] = (0.0, 1.0),
) -> AttentionValues:
    """The same row for every layer, float32."""

    def rows(value: float | tuple[float, float]) -> Array:
        row = jnp.asarray(value, jnp.float32)
        return jnp.broadcast_to(row, (layers, *row.shape))

    return AttentionValues(rows(scale), rows(cap), rows(clip), rows(sigmoid_bias), rows(gate))
