"""How far the angles of a rotation are off, by the arithmetic that they are made with."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from model.positions.phase import angles, fixed_point

Arithmetic = Literal["fixed_point", "float32", "bfloat16_frequencies", "bfloat16"]
ARITHMETICS: tuple[Arithmetic, ...] = get_args(Arithmetic)
# Positions of which all angles exist at once.
BLOCK = 2**15


def phase_errors(arithmetic: Arithmetic, frequencies: NDArray[np.float64], lengths: Sequence[int]) -> list[float]:
    """The largest |θ - m w| modulo 2π [rad] over all positions 0 <= m < length and all pairs, for each of the rising lengths.

    The angles θ are made on the device; m w is float64 on the host, itself off by less than 1e-9 rad at a million tokens.
    """
    made = _angles(arithmetic, frequencies)
    found, largest, start = [], 0.0, 0
    for length in lengths:
        while start < length:
            positions = np.arange(start, min(start + BLOCK, length))
            padded = np.pad(positions, (0, BLOCK - len(positions)), mode="edge")  # so that one program serves every block
            theta = np.asarray(made(jnp.asarray(padded)), np.float64)[: len(positions)]
            turns = (theta - positions[:, None] * frequencies) / (2 * np.pi)
            largest = max(largest, float(2 * np.pi * np.abs(turns - np.round(turns)).max()))
            start = int(positions[-1]) + 1
        found.append(largest)
    return found


def _angles(arithmetic: Arithmetic, frequencies: NDArray[np.float64]) -> Callable[[Int[Array, " m"]], Float[Array, "m pairs"]]:
    """Positions to angles: ours, or the product of position and inverse frequency after both are rounded."""
    if arithmetic == "fixed_point":
        table = fixed_point(frequencies[None])
        return jax.jit(lambda positions: angles(positions[:, None], table))
    position_type = jnp.bfloat16 if arithmetic == "bfloat16" else jnp.float32
    frequency_type = jnp.float32 if arithmetic == "float32" else jnp.bfloat16
    rounded = jnp.asarray(frequencies).astype(frequency_type).astype(jnp.float32)
    return jax.jit(lambda positions: positions.astype(position_type).astype(jnp.float32)[:, None] * rounded[None])
