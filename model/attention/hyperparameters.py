"""Hyperparameters of attention that are traced: changing them never recompiles."""

from typing import Any, no_type_check

import jax.numpy as jnp
import numpy as np
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
    values = {"scale": scale, "cap": cap, "normalizer": normalizer, "gate": gate}
    return Hyperparameters(**{name: same_rows(value, layers) for name, value in values.items()})


def same_rows(row: Any, layers: int, dtype: Any = np.float32) -> Array:
    """[L, …] of the same row for every layer, made by numpy: JAX would compile a program for every shape."""
    row = np.asarray(row, dtype)
    return jnp.asarray(np.broadcast_to(row, (layers, *row.shape)))
