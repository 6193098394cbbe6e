"""The positions of a model as values: what is swept, and never compiled in."""

from typing import no_type_check

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

# Wider than any context, and int32 without overflow: a window of this width hides nothing.
NO_WINDOW = 2**30


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class PositionTables:
    """One row a layer: a RoPE variant, NoPE, ALiBi and a sliding window differ in these numbers only."""

    inverse_frequencies: Float[Array, "*L half"]  # rad per token; zeros are NoPE
    attention_factor: Float[Array, "*L"]  # multiplies cos and sin
    slopes: Float[Array, "*L N"]  # ALiBi; zeros are none
    window: Int[Array, "*L"]  # newest keys that a query sees, itself included


def position_tables(
    layers: int,
    heads: int,
    head_dim: int,
    *,
    inverse_frequencies: np.ndarray | None = None,
    attention_factor: float = 1.0,
    slopes: np.ndarray | None = None,
    window: int = NO_WINDOW,
) -> PositionTables:
    """The same row for every layer, float32 [L, …]; what is not given is absent (NoPE, no ALiBi, no window)."""
    table = np.zeros(head_dim // 2) if inverse_frequencies is None else inverse_frequencies
    slope = np.zeros(heads) if slopes is None else slopes
    return PositionTables(
        inverse_frequencies=jnp.asarray(np.tile(table, (layers, 1)), jnp.float32),
        attention_factor=jnp.full(layers, attention_factor, jnp.float32),
        slopes=jnp.asarray(np.tile(slope, (layers, 1)), jnp.float32),
        window=jnp.full(layers, window, jnp.int32),
    )
