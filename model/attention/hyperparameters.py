"""Hyperparameters of attention that are traced: changing them never recompiles."""

from typing import no_type_check

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Hyperparameters:
    """One row per layer. A block ignores the values of mechanisms that it does not have."""

    scale: Float[Array, "*L"]  # multiplies q·k / sqrt(H): 1 / temperature
    cap: Float[Array, "*L"]  # of the soft cap of the scores
    normalizer: Float[Array, "*L 2"]  # (low, high) of "clipped"; "sigmoid" reads the first alone, its bias
    gate: Float[Array, "*L 2"]  # low and high of a gate (model.attention.gate)


def hyperparameters(
    layers: int,
    *,
    scale: float = 1.0,
    cap: float = jnp.inf,
    normalizer: tuple[float, float] = (0.0, 1.0),
    gate: tuple[float, float] = (0.0, 1.0),
) -> Hyperparameters:
    """The same row for every layer, float32 [L, …]. The defaults change nothing."""

    def rows(value: float | tuple[float, float]) -> Array:
        row = jnp.asarray(value, jnp.float32)
        return jnp.broadcast_to(row, (layers, *row.shape))

    return Hyperparameters(scale=rows(scale), cap=rows(cap), normalizer=rows(normalizer), gate=rows(gate))
