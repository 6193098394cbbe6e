"""Softmax attention as a Pallas kernel of a GPU and of a TPU: model.attention.tiled with a program for each tile of queries.

Window, initial tokens, slopes and sink logits are values that kernels read, so that a sweep over them is one program. One
source serves both machines: a loop over the tiles of keys that are seen. A TPU holds all keys of a head on the chip.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float, Int

from leadline.model.attention.mask import Between, Mask, Tiling, tiles_seen, visible
from leadline.model.attention.normalizers import finite, nonzero
from leadline.model.attention.pallas_backend import (
    Launch,
    Machine,
    Tile,
    block,
    channels_of,
    launch_of,
    launched,
    numbers,
    on_each_device,
    tile_number,
)
from leadline.model.attention.scores import AttentionInputs
from leadline.model.attention.tiled import OnlineSoftmax, online_softmax, pad_end
from leadline.model.mesh import heads_first


class Operands(NamedTuple):
    """What the kernels read. Tokens fill whole tiles, with zeros after a text; channels fill what a machine needs."""

    mask: Int[Array, "1 4"]  # window, initial tokens, position of the first query, chunk
    of_head: Float[Array, "N 2"]  # sink logit, slope
    q: Float[Array, "B N T H"]  # scaled
    k: Float[Array, "B K S H"]
    v: Float[Array, "B K S Hv"]
    padding: Float[Array, "B 1 1 S"] | None  # -inf where there is padding, else 0


class Values(NamedTuple):
    """The numbers that a program reads, those of its head among them."""

    mask: Mask
    sink_logit: Float[Array, ""]
    slope: Float[Array, ""]


def softmax_by_kernel(x: AttentionInputs, tiling: Tiling) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    """`model.attention.tiled.softmax_by_tiles` by a kernel. Each device has its own heads and texts."""
    of_device = functools.partial(_softmax_of_device, launch=launch_of(x, tiling, gradient=False))
    return on_each_device(of_device, (heads_first(5), heads_first(4)), x)


def _softmax_of_device(x: AttentionInputs, launch: Launch) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    (B, K, G, T, _), Hv, (machine, tile, _) = x.q.shape, x.v.shape[-1], launch
    operands = operands_of(x, launch)
    N, rows, channels = *operands.q.shape[1:3], operands.v.shape[-1]
    outputs = jax.ShapeDtypeStruct((B, N, rows, channels), x.v.dtype), jax.ShapeDtypeStruct((B, N, 1, rows), jnp.float32)
    specs = [block(machine, outputs[0], tile.block_q), block(machine, outputs[1], tile.block_q, axis=3)]
    blocks = blocks_of(operands, machine, tile.block_q, None)
    out, lse = launched(_softmax_kernel, launch, operands, blocks, outputs, specs, tiles=rows // tile.block_q)
    return out[:, :, :T, :Hv].reshape(B, K, G, T, Hv), lse[:, :, 0, :T].reshape(B, K, G, T)


def operands_of(x: AttentionInputs, launch: Launch) -> Operands:
    """The operands of the kernels. Outputs of surplus queries are cut off; no query sees surplus keys, which lie after all."""
    (B, K, G, T, H), S, tile, mask = x.q.shape, x.k.shape[2], launch.tile, x.mask
    rows = math.ceil(T / tile.block_q) * tile.block_q - T
    keys = math.ceil((S + rows) / tile.block_k) * tile.block_k - S  # as far as the last rows look
    padding = None
    if mask.padding is not None:
        padding = pad_end(jnp.where(mask.padding, 0.0, -jnp.inf), 1, keys)[:, None, None]

    def filled(a: Array, tokens: int) -> Array:
        return pad_end(pad_end(a, 2, tokens), 3, channels_of(launch.machine, a.shape[3]) - a.shape[3])

    return Operands(
        mask=jnp.stack([mask.window, mask.initial_tokens, mask.first_query, mask.chunk]).reshape(1, 4),  # pyright: ignore[reportArgumentType]
        of_head=jnp.stack([x.sink_logit.reshape(-1), x.slopes.reshape(-1)], axis=1),
        q=filled((x.q * x.scale).reshape(B, K * G, T, H), rows),
        k=filled(x.k, keys),
        v=filled(x.v, keys),
        padding=padding,
    )


def _softmax_kernel(x: Any, out: Any, lse: Any, *, tile: Tile, machine: Machine) -> None:
    """`online_softmax` over the tiles of keys that a tile of queries sees."""
    values = values_of(x)
    i = values.mask.first_query + tile_number(machine) * tile.block_q
    count, whole, at = tiles_seen(i, tile.block_q, tile.block_k, values.mask)
    q = x.q[...]

    def with_keys(n: Array, sums: OnlineSoftmax, *, whole: bool) -> OnlineSoftmax:
        keys = tile_at(at(n), tile.block_k)
        products = product(q, x.k[keys, :], 1, 1)
        s, _ = tile_scores(products, values, i, at(n), padding_of(x, keys), rows_along=0, whole=whole)
        return online_softmax(sums, s, lambda p: product(p.astype(x.v.dtype), x.v[keys, :], 1, 0), exponential)

    m = jnp.full((tile.block_q, 1), values.sink_logit)
    before = OnlineSoftmax(m, jnp.isfinite(m).astype(jnp.float32), jnp.zeros(out.shape, jnp.float32))
    m, l, acc = through((jnp.int32(0), count), whole, with_keys, before)  # noqa: E741
    l = nonzero(l)  # noqa: E741
    out[...] = (acc / l).astype(out.dtype)
    lse[...] = (finite(m) + jnp.log(l)).T


def values_of(x: Any) -> Values:
    """The numbers of the program's head."""
    head = pl.program_id(1)
    return Values(Mask(x.mask[0, 0], x.mask[0, 1], x.mask[0, 2], chunk=x.mask[0, 3]), x.of_head[head, 0], x.of_head[head, 1])


def padding_of(x: Any, keys: Any) -> Array | None:
    """What padding adds to the scores of some keys, as a row."""
    return None if x.padding is None else x.padding[:, keys]


def tile_scores(
    products: Array, values: Values, i: Array, j: Array, padding: Array | None, *, rows_along: Literal[0, 1], whole: bool
) -> tuple[Array, Array]:
    """The scores of a tile and the distances i - j in float32, which holds them exactly.

    Args:
        products: q·k of the tile.
        values: mask and slope.
        i: position of the first query.
        j: position of the first key.
        padding: added to the scores of the keys.
        rows_along: the axis of queries.
        whole: whether every query sees every key, so that nothing is masked.
    """
    row, key = (_along(axis, products.shape[axis]) for axis in (rows_along, 1 - rows_along))
    distance = (i - j + row).astype(jnp.float32) - key.astype(jnp.float32)
    s = products - values.slope * distance
    if not whole:
        window, chunk = (jnp.asarray(number).astype(jnp.float32) for number in (values.mask.window, values.mask.chunk))
        at = (i + row).astype(jnp.float32)
        # Half a token keeps the quotient away from whole numbers, which a device may miss by a rounding.
        in_chunk = at - chunk * jnp.floor((at + 0.5) / chunk)
        s = jnp.where(visible(distance, j + key, jnp.minimum(window, in_chunk + 1), values.mask.initial_tokens), s, -jnp.inf)
    return s if padding is None else s + padding, distance


def _along(axis: int, size: int) -> Int[Array, "#r #s"]:
    """0 to size - 1 along an axis of a matrix."""
    return jax.lax.broadcasted_iota(jnp.int32, (size, 1) if axis == 0 else (1, size), axis)


def through(tiles: Between, whole: Between, step: Callable[..., Any], sums: Any) -> Any:
    """`sums` after a step for each tile; those in the middle, which are seen whole, are not masked."""
    for first, last, seen_whole in ((tiles[0], whole[0], False), (*whole, True), (whole[1], tiles[1], False)):
        sums = jax.lax.fori_loop(first, last, functools.partial(step, whole=seen_whole), sums)
    return sums


def exponential(x: Array) -> Array:
    """e^x as a power of two, which takes a GPU fewer instructions than its library's e^x (docs/performance.md)."""
    return jnp.exp2(x * math.log2(math.e))


def product(a: Array, b: Array, of_a: int, of_b: int) -> Array:
    """Summed over these axes in float32; factors of float32 are not rounded."""
    precision = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    dimensions = (((of_a,), (of_b,)), ((), ()))
    return jax.lax.dot_general(a, b, dimensions, precision=precision, preferred_element_type=jnp.float32)


def tile_at(start: Array, size: int) -> Any:
    """The `size` tokens from `start` on, a multiple of `size`."""
    return pl.ds(pl.multiple_of(start, size), size)


def blocks_of(x: Operands, machine: Machine, block_q: int | None, block_k: int | None) -> Any:
    """The block specs of the operands: the queries and keys of a program's tile, None being all."""
    shared = x.q.shape[1] // x.k.shape[1]
    return Operands(
        mask=numbers(machine),
        of_head=numbers(machine),
        q=block(machine, x.q, block_q),
        k=block(machine, x.k, block_k, shared),
        v=block(machine, x.v, block_k, shared),
        padding=None if x.padding is None else block(machine, x.padding, block_k, x.q.shape[1], axis=3),
    )
