"""What a GPU and a TPU want of a kernel (Pallas): the size of its tiles, the order of its programs, what each is given."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AxisType
from jaxtyping import Array

from model.flash import Softmax

# "gpu", "tpu", or "interpreter", which stands for a GPU where there is none: in a test, on a CPU.
Machine = str


class Tile(NamedTuple):
    """Rows and keys whose scores exist at once, and the warps of a GPU that share them."""

    rows: int
    keys: int
    warps: int = 8


def has_kernel(device: str, tokens: int, channels: int, itemsize: int) -> bool:
    """Whether heads with so many channels of so many bytes can be attended by a kernel over so many tokens. A TPU has to hold
    two copies of two arrays of a head, one that is read and one that comes next, in half of its vector memory, a GPU some tiles
    in 99 KiB of shared memory."""
    if device == "tpu":
        from jax.experimental.pallas import tpu

        return 2 * _on_chip(tokens, channels, itemsize) <= tpu.get_tpu_info().vmem_capacity_bytes
    return device in ("gpu", "interpreter") and channels * itemsize <= 512


def _on_chip(tokens: int, channels: int, itemsize: int) -> int:
    """Bytes of what a TPU holds of a head; its vectors have 128 lanes."""
    return 2 * 2 * tokens * math.ceil(channels / 128) * 128 * itemsize


def tile_of(machine: Machine, x: Softmax, *, gradient: bool) -> Tile:
    """Of a GPU as large as leaves no register of a warp spilled in bfloat16, on compute capability 9.0."""
    channels = max(channels_of(machine, a.shape[-1]) for a in (x.q, x.v))
    if machine == "tpu":
        return Tile(512, 512)
    if channels > 128 or x.q.dtype.itemsize > 2:
        return Tile(32, 32)
    return Tile(64, 64, warps=4 if channels <= 64 else 8) if gradient else Tile(128, 64)


def on_each_device(function: Callable[..., Any], out_specs: Any, *given: Any) -> Any:
    """`function` of what each device has of `given`: XLA cannot cut what a kernel reads."""
    mesh = jax.sharding.get_abstract_mesh()
    cut = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    specs = jax.tree.map(lambda x: jax.typeof(x).sharding.spec, given)
    return jax.shard_map(function, in_specs=specs, out_specs=out_specs, axis_names=cut, check_vma=False)(*given)


def channels_of(machine: Machine, channels: int) -> int:
    """A GPU's arrays have powers of two."""
    return channels if machine == "tpu" else max(16, 2 ** (channels - 1).bit_length())


def launched(
    kernel: Callable[..., None],
    machine: Machine,
    tile: Tile,
    x: Softmax,
    given: Any,
    blocks: Any,
    tiles: int,
    wanted: Sequence[jax.ShapeDtypeStruct],
    specs: Sequence[Any],
) -> Sequence[Array]:
    """What a program for each text, head and tile writes: `specs` of the arrays `wanted`, from `blocks` of what is `given`."""
    call = pl.pallas_call(
        functools.partial(kernel, tile=tile, machine=machine),
        grid=_grid(machine, wanted[0].shape[0], wanted[0].shape[1], tiles),
        in_specs=(blocks,),
        out_specs=specs,
        out_shape=wanted,
        **_how(machine, tile, x),
    )
    return call(given)


def _grid(machine: Machine, texts: int, heads: int, tiles: int) -> tuple[int, int, int]:
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


def numbers(machine: Machine) -> Any:
    """All of an array whose numbers are read one by one."""
    if machine != "tpu":
        return pl.BlockSpec()
    from jax.experimental.pallas import tpu

    return pl.BlockSpec(memory_space=tpu.SMEM)


def _how(machine: Machine, tile: Tile, x: Softmax) -> dict[str, Any]:
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
