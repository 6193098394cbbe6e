"""What a layer's tables do to its queries and keys."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from model.positions.phase import angles
from model.positions.pope import polar
from model.positions.rope import rotate
from model.positions.tables import PositionTables
from model.positions.temperature import query_scale

Side = Literal["query", "key"]


def turned(
    x: Float[Array, "B T N H"],
    i: Int[Array, " T"],
    positions: Int[Array, "T coordinates"],
    tables: PositionTables,
    side: Side,
    *,
    interleaved: bool = False,
) -> Float[Array, "B T N H"]:
    """x rotated to its positions, times the attention factor, xPos's decay (ζ^i for a query, ζ^-i for a key) and the
    temperature of a query. `i` is the place in the text; `tables` are one layer's."""
    return rotate(x, angles(positions, tables.frequencies), factor=_amplitude(i, tables, side), interleaved=interleaved)


def polarised(
    x: Float[Array, "B T N H"],
    i: Int[Array, " T"],
    positions: Int[Array, "T coordinates"],
    tables: PositionTables,
    side: Side,
    phase: Float[Array, "K H"],
) -> Float[Array, "B T N H_2"]:
    """As `turned` for PoPE (model.positions.pope): a magnitude and an angle a channel, and `phase` on the keys alone."""
    y = polar(x, angles(positions, tables.frequencies), phase if side == "key" else None)
    amplitude = jnp.tile(_amplitude(i, tables, side), (1, 2))
    return y * amplitude[None, :, None].astype(y.dtype)


def at_places(tables: PositionTables, i: Int[Array, "*T"]) -> PositionTables:
    """The rows of tables that hold one for each place of the text."""
    frequencies = jax.tree.map(lambda rows: rows[i], tables.frequencies)
    return dataclasses.replace(tables, frequencies=frequencies, attention_factor=tables.attention_factor[i])


def _amplitude(i: Int[Array, " T"], tables: PositionTables, side: Side) -> Float[Array, "T pairs"]:
    factor = tables.attention_factor
    factor = factor if factor.ndim == 2 else factor[None]
    signed = tables.decay if side == "query" else -tables.decay
    amplitude = factor * jnp.exp(signed[None] * i.astype(jnp.float32)[:, None])
    if side == "query":
        amplitude = amplitude * query_scale(i, tables.temperature, tables.temperature_span)[:, None]
    return amplitude
