"""What a layer's tables do to its queries and keys."""

import dataclasses
from typing import Literal, no_type_check

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from model.positions.phase import angles
from model.positions.pope import polar
from model.positions.rope import turn_pairs
from model.positions.tables import PositionTables
from model.positions.temperature import query_scale

Side = Literal["query", "key"]


@no_type_check  # JAX rebuilds trees from whatever a transformation leaves: shapes, host arrays, norms
@struct.dataclass
class Turn:
    """Cosine and sine of every position's angles, times the amplitude of a side. `*L` is empty for one layer."""

    cos: Float[Array, "*L T pairs"]
    sin: Float[Array, "*L T pairs"]


@no_type_check
@struct.dataclass
class Turns:
    """Of queries and of keys."""

    query: Turn
    key: Turn


def layer_turns(tables: PositionTables, i: Int[Array, " T"], positions: Int[Array, "T coordinates"]) -> Turns:
    """What `turned` turns by at the places i of a text, for all layers.

    One layer after the other, not by vmap: a loop ends what XLA's CPU back end may fuse, which computed each cosine anew for
    every row and head of queries and keys, a tenth of a training step.
    """

    def one(row: PositionTables) -> Turns:
        theta = angles(positions, row.frequencies)
        query, key = (_turn(theta, _amplitude(i, row, side)) for side in ("query", "key"))
        return Turns(query=query, key=key)

    return jax.lax.map(one, tables)


def by_turn(x: Float[Array, "B T N H"], turn: Turn, *, interleaved: bool) -> Float[Array, "B T N H"]:
    """x at the first T places."""
    return turn_pairs(x, turn.cos, turn.sin, interleaved=interleaved)


def _turn(theta: Float[Array, "T pairs"], amplitude: Float[Array, "#T pairs"]) -> Turn:
    return Turn(cos=amplitude * jnp.cos(theta), sin=amplitude * jnp.sin(theta))


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
    return by_turn(x, _turn(angles(positions, tables.frequencies), _amplitude(i, tables, side)), interleaved=interleaved)


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
