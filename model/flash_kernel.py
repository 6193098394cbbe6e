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
from jax.sharding import AxisType
from jaxtyping import Array, Float, Int

from model.blocks import heads, sees, tiles_seen
from model.flash import Softmax, behind

# "gpu", "tpu", or "interpreter", which stands for a GPU where there is none: in a test, on a CPU.
Machine = str


class Tile(NamedTuple):
    """Rows and keys whose scores exist at once, and the warps of a GPU that share them."""

    rows: int
    keys: int
    warps: int = 8


class Operands(NamedTuple):
    """What the kernels read. Tokens come in whole tiles, zeros behind a text; channels as `_channels` has them."""

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


def has_kernel(device: str, tokens: int, channels: int, itemsize: int) -> bool:
    """Whether heads with so many channels of so many bytes can be attended by a kernel over so many tokens. A TPU has to hold
    two copies of two arrays of a head, one that is read and one that comes next, in half of its vector memory."""
    if device == "tpu":
        from jax.experimental.pallas import tpu

        return 2 * _on_chip(tokens, channels, itemsize) <= tpu.get_tpu_info().vmem_capacity_bytes
    return device in ("gpu", "interpreter") and channels <= 256


def _on_chip(tokens: int, channels: int, itemsize: int) -> int:
    """Bytes of what a TPU holds of a head; its vectors have 128 lanes."""
    return 2 * 2 * tokens * math.ceil(channels / 128) * 128 * itemsize


def tile_of(machine: Machine, x: Softmax, *, gradient: bool) -> Tile:
    """Of a GPU as large as leaves no register spilled on one of compute capability 8.0 or 9.0, where shared memory holds it."""
    channels = max(_channels(machine, a.shape[-1]) for a in (x.q, x.v))
    if machine == "tpu":
        return Tile(512, 512)
    if channels > 128 or x.q.dtype.itemsize > 2:
        return Tile(32, 32)
    return Tile(64 if gradient else 128, 64, warps=4 if channels <= 64 else 8)


def softmax_by_kernel(x: Softmax, machine: Machine) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    """`model.flash.softmax_by_tiles`: the output and the log-sum-exp. Each device has its own heads and texts."""
    own = functools.partial(_own_rows, machine=machine)
    return on_each_device(own, (heads(5), heads(4)), x)


def on_each_device(function: Callable[..., Any], out_specs: Any, *given: Any) -> Any:
    """`function` of what each device has of `given`: XLA cannot cut what a kernel reads."""
    mesh = jax.sharding.get_abstract_mesh()
    cut = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    specs = jax.tree.map(lambda x: jax.typeof(x).sharding.spec, given)
    return jax.shard_map(function, in_specs=specs, out_specs=out_specs, axis_names=cut, check_vma=False)(*given)


def _own_rows(x: Softmax, machine: Machine) -> tuple[Float[Array, "B K G T Hv"], Float[Array, "B K G T"]]:
    (B, K, G, T, _), Hv, tile = x.q.shape, x.v.shape[-1], tile_of(machine, x, gradient=False)
    given = operands(x, machine, tile)
    N, rows, channels = *given.q.shape[1:3], given.v.shape[-1]
    wanted = jax.ShapeDtypeStruct((B, N, rows, channels), x.v.dtype), jax.ShapeDtypeStruct((B, N, 1, rows), jnp.float32)
    out, lse = pl.pallas_call(
        functools.partial(_rows, tile=tile, machine=machine),
        grid=grid(machine, B, N, rows // tile.rows),
        in_specs=(of_operands(given, machine, tile.rows, None),),
        out_specs=[block(machine, wanted[0], tile.rows), block(machine, wanted[1], tile.rows, axis=3)],
        out_shape=wanted,
        **how(machine, tile, x),
    )(given)
    return out[:, :, :T, :Hv].reshape(B, K, G, T, Hv), lse[:, :, 0, :T].reshape(B, K, G, T)


def operands(x: Softmax, machine: Machine, tile: Tile) -> Operands:
    """Surplus rows are behind the last query and see nothing but zeros."""
    (B, K, G, T, H), S = x.q.shape, x.k.shape[2]
    rows = math.ceil(T / tile.rows) * tile.rows - T
    keys = math.ceil((S + rows) / tile.keys) * tile.keys - S  # as far as the last rows look
    hidden = None
    if x.padding is not None:
        hidden = behind(jnp.where(x.padding, 0.0, -jnp.inf), 1, keys)[:, None, None]

    def filled(a: Array, tokens: int) -> Array:
        return behind(behind(a, 2, tokens), 3, _channels(machine, a.shape[3]) - a.shape[3])

    return Operands(
        sight=jnp.stack([x.window, x.kept, x.first]).reshape(1, 3),
        of_head=jnp.stack([x.extra_logit.reshape(-1), x.slopes.reshape(-1)], axis=1),
        q=filled((x.q * x.scale).reshape(B, K * G, T, H), rows),
        k=filled(x.k, keys),
        v=filled(x.v, keys),
        hidden=hidden,
    )


def _channels(machine: Machine, channels: int) -> int:
    """A GPU's arrays have powers of two."""
    return channels if machine == "tpu" else max(16, 2 ** (channels - 1).bit_length())


def _rows(x: Any, out: Any, lse: Any, *, tile: Tile, machine: Machine) -> None:
    """The sums of model.flash.softmax_by_tiles over the tiles of keys that a tile of rows sees."""
    own = values(x)
    i = own.first + tile_number(machine) * tile.rows
    count, at = tiles_seen(i, tile.rows, tile.keys, own.window, own.kept)
    q = x.q[...]

    def with_keys(n: Array, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        keys = tile_at(at(n), tile.keys)
        scores, _ = seen_scores(product(q, x.k[keys, :], 1, 1), own, i, at(n), hidden(x, keys), rows_along=0)
        return _added(sums, scores, x.v[keys, :])

    column = jnp.full((tile.rows, 1), own.extra_logit)
    none = column, jnp.isfinite(column).astype(jnp.float32), jnp.zeros(out.shape, jnp.float32)
    largest, total, mixed = jax.lax.fori_loop(0, count, with_keys, none)
    total = jnp.where(total == 0, 1, total)
    out[...] = (mixed / total).astype(out.dtype)
    lse[...] = (_finite(largest) + jnp.log(total)).T


def _added(sums: tuple[Array, Array, Array], scores: Array, v: Array) -> tuple[Array, Array, Array]:
    """The largest score m of each row, Σ e^(s - m), Σ e^(s - m) v."""
    before, total, mixed = sums
    largest = jnp.maximum(before, jnp.max(scores, axis=1, keepdims=True))
    base = _finite(largest)
    p, shrunk = jnp.exp(scores - base), jnp.exp(before - base)
    return largest, total * shrunk + jnp.sum(p, axis=1, keepdims=True), mixed * shrunk + product(p.astype(v.dtype), v, 1, 0)


def _finite(largest: Array) -> Array:
    """0 for a row that has seen nothing."""
    return jnp.where(jnp.isfinite(largest), largest, 0)


def values(x: Any) -> Values:
    head = pl.program_id(1)
    return Values(x.sight[0, 0], x.sight[0, 1], x.sight[0, 2], x.of_head[head, 0], x.of_head[head, 1])


def hidden(x: Any, keys: Any) -> Array | None:
    """What padding adds to the scores of some keys, as a row."""
    return None if x.hidden is None else x.hidden[:, keys]


def seen_scores(
    products: Array, own: Values, i: Array, j: Array, hidden: Array | None, *, rows_along: Literal[0, 1]
) -> tuple[Array, Array]:
    """A tile of scores, -inf where nothing is seen, and how far rows are behind keys; these begin at i and j."""
    key = j + jax.lax.broadcasted_iota(jnp.int32, products.shape, 1 - rows_along)
    distance = i + jax.lax.broadcasted_iota(jnp.int32, products.shape, rows_along) - key
    biased = products - own.slope * distance.astype(jnp.float32)
    scores = jnp.where(sees(distance, key, own.window, own.kept), biased, -jnp.inf)
    return scores if hidden is None else scores + hidden, distance


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
        sight=_numbers(machine),
        of_head=_numbers(machine),
        q=block(machine, x.q, rows),
        k=block(machine, x.k, keys, shared),
        v=block(machine, x.v, keys, shared),
        hidden=None if x.hidden is None else block(machine, x.hidden, keys, x.q.shape[1], axis=3),
    )


def grid(machine: Machine, texts: int, heads: int, tiles: int) -> tuple[int, int, int]:
    """A TPU goes through the last axis first, with what it has on the chip of the others, a GPU through the first."""
    return (tiles, heads, texts) if machine == "gpu" else (texts, heads, tiles)


def tile_number(machine: Machine) -> Array:
    return pl.program_id(0 if machine == "gpu" else 2)


def block(machine: Machine, x: Any, tokens: int | None, shared: int = 1, *, axis: Literal[2, 3] = 2) -> Any:
    """So many tokens along `axis` of [B, heads, ., .], those of a program's tile, or all; `shared` query heads share one."""
    size = {axis: x.shape[axis] if tokens is None else tokens}

    def at(*places: Array) -> tuple[Any, ...]:
        text, head, tile = reversed(places) if machine == "gpu" else places
        return text, jax.lax.div(head, jnp.int32(shared)), *(tile if a == axis and tokens is not None else 0 for a in (2, 3))

    return pl.BlockSpec((None, None, *(size.get(a, x.shape[a]) for a in (2, 3))), at)


def _numbers(machine: Machine) -> Any:
    """All of an array whose numbers are read one by one."""
    if machine != "tpu":
        return pl.BlockSpec()
    from jax.experimental.pallas import tpu

    return pl.BlockSpec(memory_space=tpu.SMEM)


def how(machine: Machine, tile: Tile, x: Softmax) -> dict[str, Any]:
    """What pallas_call is told of the machine."""
    if machine == "interpreter":
        return {"interpret": True}
    if machine == "gpu":
        from jax.experimental.pallas import triton

        return {"compiler_params": triton.CompilerParams(num_warps=tile.warps, num_stages=2)}
    from jax.experimental.pallas import tpu

    held = _on_chip(max(x.q.shape[3], x.k.shape[2]), max(x.q.shape[-1], x.v.shape[-1]), x.q.dtype.itemsize)
    limit = held + 12 * 2**20  # tiles of scores in float32, 1 MiB each, and sums
    return {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",) * 3, vmem_limit_bytes=limit)}
