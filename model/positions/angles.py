"""Rotation angles that stay exact at any position, on devices that have no float64."""

from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Float32, Int, UInt32
from numpy.typing import NDArray

# A turn is 2^32 of these, so that the wrap-around of 32-bit integers is the reduction modulo 2π.
UNIT = 2 * np.pi / 2**32


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Frequencies:
    """Inverse frequencies w = UNIT · units + remainder [rad per token], one row a coordinate of the position.

    The gradient with respect to w is that with respect to the remainder.
    """

    units: UInt32[Array, "*L coordinates pairs"]
    remainder: Float32[Array, "*L coordinates pairs"]


def fixed_point(frequencies: NDArray[np.float64]) -> Frequencies:
    """float64 inverse frequencies [rad per token] as two parts, whose sum is exact to 1e-16 rad per token."""
    units = np.round(frequencies / UNIT)
    remainder = frequencies - units * UNIT
    return Frequencies(units=_array(np.mod(units, 2**32), np.uint32), remainder=_array(remainder, np.float32))


def _array(values: NDArray[np.float64], dtype: Any) -> Any:
    return jnp.asarray(values.astype(dtype))


def angles(positions: Int[Array, "T coordinates"], frequencies: Frequencies) -> Float[Array, "T pairs"]:
    """θ_t = Σ_c position_tc · w_c, modulo 2π into [-π, π], float32 [rad].

    The product of position and units wraps at 2^32, a whole turn. The rest is exact, and a float32 only has to hold half a
    turn. The error is below 1e-6 rad up to position 2^24, where a float32 product of position and frequency is off by a radian.

    Args:
        positions: in tokens.
        frequencies: one table, or one for each token.
    """
    each = positions[:, :, None]
    units, remainder = (x if x.ndim == 3 else x[None] for x in (frequencies.units, frequencies.remainder))
    wrapped = jnp.sum(each.astype(jnp.uint32) * units, axis=1, dtype=jnp.uint32)
    half_turns = jax.lax.bitcast_convert_type(wrapped, jnp.int32).astype(jnp.float32) * np.float32(UNIT)
    return half_turns + jnp.sum(each.astype(jnp.float32) * remainder, axis=1)
