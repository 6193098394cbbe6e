"""Softmax attention as a kernel of a GPU and of a TPU (Pallas): model.flash with a program for each tile of rows.

Window, kept tokens, slopes and extra logits are values that kernels read, so that a sweep over them is one program. One source
serves both machines: a loop over the tiles that are seen, which on a TPU lie on the chip with all keys of their head.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from model.blocks import Between, heads, sees, tiles_seen
from model.flash import Softmax, behind, finite
from model.flash_machine import Machine, Tile, block, channels_of, launched, numbers, on_each_device, tile_number, tile_of


class Operands(NamedTuple):
    """What the kernels read. Tokens come in whole tiles, zeros behind a text; channels as a machine wants them."""

    sight: Int[Array, "1 3"]  # window, kept, place of the first query among the keys
    of_head: Float[Array, "N 2"]  # extra logit, slope
    q: Float[Array, "B N T H"]  # scaled
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    hidden: Float[Array, "B 1 1 S"] | None  # -inf where there is padding, else 0


class Values(NamedTuple):
    """The numbers of a program, those of its head among them."""

    window: Int[Array, ""]
    kept: Int[Array, ""]
    first: Int[Array, ""]
    extra_logit: Float[Array, ""]
    slope: Float[Array, ""]


def softmax_by_kernel(x: Softmax, machine: Machine) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    """`model.flash.softmax_by_tiles`: the output and the log-sum-exp. Each device has its own heads and texts."""
    own = functools.partial(_own_rows, machine=machine)
    return on_each_device(own, (heads(5), heads(4)), x)


def _own_rows(x: Softmax, machine: Machine) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    (B, K, G, T, _), Hv, tile = x.q.shape, x.v.shape[-1], tile_of(machine, x, gradient=False)
    given = operands(x, machine, tile)
    N, rows, channels = *given.q.shape[1:3], given.v.shape[-1]
    wanted = jax.ShapeDtypeStruct((B, N, rows, channels), x.v.dtype), jax.ShapeDtypeStruct((B, N, 1, rows), jnp.float32)
    blocks = of_operands(given, machine, tile.rows, None)
    specs = [block(machine, wanted[0], tile.rows), block(machine, wanted[1], tile.rows, axis=3)]
    out, lse = launched(_rows, machine, tile, x, given, blocks, rows // tile.rows, wanted, specs)
    return out[:, :, :T, :Hv].reshape(B, K, G, T, Hv), lse[:, :, 0, :T].reshape(B, K, G, T)


def operands(x: Softmax, machine: Machine, tile: Tile) -> Operands:
    """What surplus rows give is cut off, and nobody sees surplus keys: they are behind the last query."""
    (B, K, G, T, H), S = x.q.shape, x.k.shape[2]
    rows = math.ceil(T / tile.rows) * tile.rows - T
    keys = math.ceil((S + rows) / tile.keys) * tile.keys - S  # as far as the last rows look
    hidden = None
    if x.padding is not None:
        hidden = behind(jnp.where(x.padding, 0.0, -jnp.inf), 1, keys)[:, None, None]

    def filled(a: Array, tokens: int) -> Array:
        return behind(behind(a, 2, tokens), 3, channels_of(machine, a.shape[3]) - a.shape[3])

    return Operands(
        sight=jnp.stack([x.window, x.kept, x.first]).reshape(1, 3),
        of_head=jnp.stack([x.extra_logit.reshape(-1), x.slopes.reshape(-1)], axis=1),
        q=filled((x.q * x.scale).reshape(B, K * G, T, H), rows),
        k=filled(x.k, keys),
        v=filled(x.v, keys),
        hidden=hidden,
    )


def _rows(x: Any, out: Any, lse: Any, *, tile: Tile, machine: Machine) -> None:
    """The sums of model.flash.softmax_by_tiles over the tiles of keys that a tile of rows sees."""
    own = values(x)
    i = own.first + tile_number(machine) * tile.rows
    count, whole, at = tiles_seen(i, tile.rows, tile.keys, own.window, own.kept)
    q = x.q[...]

    def with_keys(n: Array, sums: tuple[Array, Array, Array], *, whole: bool) -> tuple[Array, Array, Array]:
        keys = tile_at(at(n), tile.keys)
        scores, _ = seen_scores(product(q, x.k[keys, :], 1, 1), own, i, at(n), hidden(x, keys), rows_along=0, whole=whole)
        return _added(sums, scores, x.v[keys, :])

    column = jnp.full((tile.rows, 1), own.extra_logit)
    none = column, jnp.isfinite(column).astype(jnp.float32), jnp.zeros(out.shape, jnp.float32)
    largest, total, mixed = through((jnp.int32(0), count), whole, with_keys, none)
    total = jnp.where(total == 0, 1, total)
    out[...] = (mixed / total).astype(out.dtype)
    lse[...] = (finite(largest) + jnp.log(total)).T


def _added(sums: tuple[Array, Array, Array], scores: Array, v: Array) -> tuple[Array, Array, Array]:
    """The largest score m of each row, Σ e^(s - m), Σ e^(s - m) v."""
    before, total, mixed = sums
    largest = jnp.maximum(before, jnp.max(scores, axis=1, keepdims=True))
    base = finite(largest)
    p, shrunk = exponential(scores - base), exponential(before - base)
    return largest, total * shrunk + jnp.sum(p, axis=1, keepdims=True), mixed * shrunk + product(p.astype(v.dtype), v, 1, 0)


def values(x: Any) -> Values:
    head = pl.program_id(1)
    return Values(x.sight[0, 0], x.sight[0, 1], x.sight[0, 2], x.of_head[head, 0], x.of_head[head, 1])


def hidden(x: Any, keys: Any) -> Array | None:
    """What padding adds to the scores of some keys, as a row."""
    return None if x.hidden is None else x.hidden[:, keys]


def seen_scores(
    products: Array, own: Values, i: Array, j: Array, hidden: Array | None, *, rows_along: Literal[0, 1], whole: bool
) -> tuple[Array, Array]:
    """A tile of scores, -inf where nothing is seen unless the `whole` tile is, and how far rows are behind keys, as float32,
    which it is exactly; they begin at i and j."""
    row, key = (_along(axis, products.shape[axis]) for axis in (rows_along, 1 - rows_along))
    distance = (i - j + row).astype(jnp.float32) - key.astype(jnp.float32)
    scores = products - own.slope * distance
    if not whole:
        scores = jnp.where(sees(distance, j + key, own.window.astype(jnp.float32), own.kept), scores, -jnp.inf)
    return scores if hidden is None else scores + hidden, distance


def _along(axis: int, size: int) -> Int[Array, "#r #s"]:
    """0 to size - 1 along an axis of a matrix."""
    return jax.lax.broadcasted_iota(jnp.int32, (size, 1) if axis == 0 else (1, size), axis)


def through(tiles: Between, whole: Between, step: Callable[..., Any], sums: Any) -> Any:
    """`sums` after all tiles, those in the middle that are seen whole without a look at every score."""
    for first, last, seen_whole in ((tiles[0], whole[0], False), (*whole, True), (whole[1], tiles[1], False)):
        sums = jax.lax.fori_loop(first, last, functools.partial(step, whole=seen_whole), sums)
    return sums


def exponential(x: Array) -> Array:
    """e^x as a power of two, which takes a GPU fewer instructions than its library's e^x: docs/performance.md."""
    return jnp.exp2(x * math.log2(math.e))


def product(a: Array, b: Array, of_a: int, of_b: int) -> Array:
    """Summed over these axes in float32; factors of float32 are not rounded."""
    precision = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    dimensions = (((of_a,), (of_b,)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, precision=precision, preferred_element_type=jnp.float32)


def tile_at(start: Array, size: int) -> Any:
    return pl.ds(pl.multiple_of(start, size), size)


def of_operands(x: Operands, machine: Machine, rows: int | None, keys: int | None) -> Any:
    """What a program sees of each: so many rows and keys, those of its tile, or all."""
    shared = x.q.shape[1] // x.k.shape[1]
    return Operands(
        sight=numbers(machine),
        of_head=numbers(machine),
        q=block(machine, x.q, rows),
        k=block(machine, x.k, keys, shared),
        v=block(machine, x.v, keys, shared),
        hidden=None if x.hidden is None else block(machine, x.hidden, keys, x.q.shape[1], axis=3),
    )
