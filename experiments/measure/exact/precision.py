"""Phase errors, how far rotation angles are off by the arithmetic that computes them: a job an arithmetic."""

from collections.abc import Callable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Precision
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.records.measurement import reading
from leadline.model.positions.angles import angles, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies

Arithmetic = Literal["fixed_point", "float32", "bfloat16_frequencies", "bfloat16"]
# Positions whose angles exist at the same time.
BLOCK = 2**15


def phase_errors(arithmetic: Arithmetic, frequencies: NDArray[np.float64], lengths: Sequence[int]) -> list[float]:
    """max over m < N and pairs i of |θ_i(m) - m ω_i| modulo 2π, for each length N.

    θ is computed on the device in the given arithmetic. The reference m ω is float64 on the host, which is itself off by less
    than 1e-9 rad at a million tokens.

    Args:
        arithmetic: of position and frequency; "fixed_point" is leadline's own.
        frequencies: ω [pairs], radians per token.
        lengths: N, ascending. They share their work.

    Returns:
        The largest error [rad] for each length.
    """
    compute, errors = _angles(arithmetic, frequencies), np.empty(0)
    while len(errors) < lengths[-1]:
        positions = np.arange(len(errors), len(errors) + BLOCK)
        rotations = (np.asarray(compute(jnp.asarray(positions)), np.float64) - positions[:, None] * frequencies) / (2 * np.pi)
        errors = np.append(errors, 2 * np.pi * np.abs(rotations - np.round(rotations)).max(axis=1))
    return [float(errors[:length].max()) for length in lengths]


def _angles(arithmetic: Arithmetic, frequencies: NDArray[np.float64]) -> Callable[[Int[Array, " m"]], Float[Array, "m pairs"]]:
    """Positions to angles: leadline's, or the float32 product of the rounded position and the rounded frequency."""
    if arithmetic == "fixed_point":
        table = fixed_point(frequencies[None])
        return jax.jit(lambda positions: angles(positions[:, None], table))
    position_type = jnp.bfloat16 if arithmetic == "bfloat16" else jnp.float32
    frequency_type = jnp.float32 if arithmetic == "float32" else jnp.bfloat16
    rounded = jnp.asarray(frequencies).astype(frequency_type).astype(jnp.float32)
    return jax.jit(lambda positions: positions.astype(position_type).astype(jnp.float32)[:, None] * rounded[None])


LABELS: dict[Arithmetic, str] = {
    "fixed_point": "32-bit fixed-point fraction of a rotation (the default here)",
    "float32": "float32 position × float32 frequency",
    "bfloat16_frequencies": "float32 position × bfloat16 frequency",
    "bfloat16": "bfloat16 position × bfloat16 frequency",
}


class PrecisionSettings(Frozen):
    """What decides the numbers of one arithmetic."""

    kind: Literal["precision"] = "precision"
    arithmetic: Arithmetic
    head_dim: int
    base: float
    lengths: tuple[int, ...]


def jobs(exact: Precision) -> list[Job]:
    """A job for each arithmetic: `phase_error` [rad] below each `length`."""
    shared = {"head_dim": exact.head_dim, "base": exact.base, "lengths": tuple(sorted(set(exact.lengths)))}
    every = {label: PrecisionSettings(arithmetic=arithmetic, **shared) for arithmetic, label in LABELS.items()}
    return [Job(settings.arithmetic, label, settings, independent(_errors, settings)) for label, settings in every.items()]


def _errors(settings: PrecisionSettings) -> Computed:
    errors = phase_errors(settings.arithmetic, inverse_frequencies(settings.head_dim, settings.base), settings.lengths)
    pairs = zip(settings.lengths, errors, strict=True)
    return Computed({reading("phase_error", length=length): np.asarray(error) for length, error in pairs})
