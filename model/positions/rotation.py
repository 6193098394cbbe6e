"""RoPE: pairs of channels rotated by the angle of their position. PoPE: each channel is the magnitude of such a pair."""

import dataclasses
import math
from typing import Literal, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Float64, Int

from leadline.model.linear import zeros
from leadline.model.mesh import GROUPS
from leadline.model.positions.angles import Frequencies, angles, fixed_point
from leadline.model.positions.tables import PositionTables

Side = Literal["query", "key"]


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Rotation:
    """Cosine and sine of the angles of T positions, times an amplitude. `*L` is empty for one layer."""

    cos: Float[Array, "*L T pairs"]
    sin: Float[Array, "*L T pairs"]


@no_type_check
@struct.dataclass
class Rotations:
    """The rotations of queries and of keys, which differ in their amplitudes."""

    query: Rotation
    key: Rotation


def rotate(x: Float[Array, "B T N H"], rotation: Rotation, *, interleaved: bool = False) -> Float[Array, "B T N H"]:
    """(x_a, x_b) → A · (x_a cos θ - x_b sin θ, x_a sin θ + x_b cos θ), θ = Σ_c position_c · w_ci [rad].

    RoPE (Su et al. 2021, arXiv:2104.09864). w are the inverse frequencies. The amplitudes A of query and key multiply the
    scores. Frequencies of 0 with amplitude 1 are NoPE.

    Args:
        x: queries or keys.
        rotation: A cos θ and A sin θ, of `rotation_of`.
        interleaved: whether pair i is the channels (2i, 2i + 1) instead of (i, i + H/2). The two differ by a fixed permutation
            of the channels.

    Returns:
        The rotated x, computed in float32, in x's type.
    """
    half = x.shape[-1] // 2
    axis, split = (-1, (half, 2)) if interleaved else (-2, (2, half))
    pairs = x.astype(jnp.float32).reshape(*x.shape[:-1], *split)
    cos, sin = rotation.cos, rotation.sin
    same, other = jnp.stack([cos, cos], axis=axis), jnp.stack([-sin, sin], axis=axis)
    rotated = pairs * same[None, :, None] + jnp.flip(pairs, axis) * other[None, :, None]
    return rotated.reshape(x.shape).astype(x.dtype)


def rotation_of(
    positions: Int[Array, "T *coordinates"],
    frequencies: Frequencies | Float64[np.ndarray, "*coordinates pairs"],
    amplitude: Float[Array, "#T pairs"] | float = 1.0,
) -> Rotation:
    """The rotation of T positions.

    Args:
        positions: in tokens; of several coordinates, one row a token.
        frequencies: inverse frequencies w [rad per token], one row a coordinate (model.positions.frequencies).
        amplitude: A, which multiplies cosine and sine.
    """
    if isinstance(frequencies, np.ndarray):
        frequencies = fixed_point(np.atleast_2d(frequencies))
    theta = angles(positions.reshape(positions.shape[0], -1), frequencies)
    return Rotation(cos=amplitude * jnp.cos(theta), sin=amplitude * jnp.sin(theta))


def layer_rotations(tables: PositionTables, i: Int[Array, " T"], positions: Int[Array, "T coordinates"]) -> Rotations:
    """The rotations of tokens i at their positions, for all layers.

    One layer after the other, not by vmap: a loop ends what XLA's CPU back end may fuse, which computed each cosine again for
    every row and head of queries and keys, a tenth of a training step.
    """

    def of_layer(row: PositionTables) -> Rotations:
        query, key = (table_rotation(row, i, positions, side) for side in ("query", "key"))
        return Rotations(query=query, key=key)

    return jax.lax.map(of_layer, tables)


def table_rotation(tables: PositionTables, i: Int[Array, " T"], positions: Int[Array, "T coordinates"], side: Side) -> Rotation:
    """The rotation of tokens i at their positions by one layer's tables, with the `amplitude` of a side."""
    return rotation_of(positions, tables.frequencies, amplitude(tables, i, side))


def init_polar_phase(heads: int, head_dim: int) -> Float[Array, "N H"]:
    """PoPE's delta = 0 for each key head, the default of public code, whose other choice is U(-2π, 0)."""
    return zeros((heads, head_dim), GROUPS)


def polar(
    x: Float[Array, "B T N H"], angles: Float[Array, "T H"], phase: Float[Array, "N H"] | None
) -> Float[Array, "B T N 2*H"]:
    """x → (mu cos(angle + delta), mu sin(angle + delta)), mu = softplus(x), of PoPE.

    Gopalakrishnan et al. 2025 (arXiv:2509.10534). The score of a query at t and a key at s is sum_c mu_q mu_k cos((t - s)
    theta_c - delta_c). It sums over H magnitudes: scale it by H^-0.5, the default of PoPE-pytorch (a port that counts the
    doubled channels takes (2H)^-0.5). Within its bounds, ends included, delta has its full gradient, and none beyond: a delta
    that a step has moved past 0 stays there.

    Args:
        x: queries or keys.
        angles: position · theta_c [rad], theta_c = b^(-c/H), one for every channel, as RoPE of 2H channels has one a pair.
        phase: delta, clamped to [-2π, 0]; None for queries.

    Returns:
        [B, T, N, 2 H], computed in float32, in x's type.
    """
    theta = angles[:, None, :]
    if phase is not None:
        # Two selections: jnp.clip would halve the gradient at 0, where every delta begins.
        bounded = jnp.where(phase > 0, 0, jnp.where(phase < -2 * math.pi, -2 * math.pi, phase))
        theta = theta + bounded[None]
    magnitude = jax.nn.softplus(x.astype(jnp.float32))
    parts = [magnitude * f(theta)[None] for f in (jnp.cos, jnp.sin)]
    return jnp.stack(parts, axis=-2).reshape(*x.shape[:-1], 2 * x.shape[-1]).astype(x.dtype)


def rotate_polar(
    x: Float[Array, "B T N H"],
    i: Int[Array, " T"],
    positions: Int[Array, "T coordinates"],
    tables: PositionTables,
    side: Side,
    phase: Float[Array, "K H"],
) -> Float[Array, "B T N H_2"]:
    """PoPE (`polar`) in place of `rotate`: a magnitude and an angle a channel, `phase` on the keys alone."""
    y = polar(x, angles(positions, tables.frequencies), phase if side == "key" else None)
    doubled = jnp.tile(amplitude(tables, i, side), (1, 2))
    return y * doubled[None, :, None].astype(y.dtype)


def amplitude(tables: PositionTables, i: Int[Array, " T"], side: Side) -> Float[Array, "T pairs"]:
    """The attention factor, times xPos's decay (ζ^i of a query, ζ^-i of a key), times the `query_scale` of a query."""
    factor = tables.attention_factor
    factor = factor if factor.ndim == 2 else factor[None]
    decay = tables.decay if side == "query" else -tables.decay
    factor = factor * jnp.exp(decay[None] * i.astype(jnp.float32)[:, None])
    return factor * query_scale(i, tables.temperature, tables.temperature_span)[:, None] if side == "query" else factor


def query_scale(i: Int[Array, " T"], strength: Float[Array, ""], span: Float[Array, ""]) -> Float[Array, " T"]:
    """1 + strength · ln(1 + floor((i + 1) / span)), the temperature of query i (Llama 4, Meta 2025).

    Llama 4 has strength 0.1 and span 8192 tokens on the layers without positions. Strength 0 is none. float32.
    """
    spans = jnp.floor((i.astype(jnp.float32) + 1) / span)
    return 1 + strength * jnp.log1p(spans)


def tables_at(tables: PositionTables, i: Int[Array, "*T"]) -> PositionTables:
    """The rows i of tables that hold one for each position of the text."""
    frequencies = jax.tree.map(lambda rows: rows[i], tables.frequencies)
    return dataclasses.replace(tables, frequencies=frequencies, attention_factor=tables.attention_factor[i])
