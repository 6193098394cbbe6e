"""What a GPU and a TPU need of a Pallas kernel: the size of tiles, the order of programs, the blocks of each program."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.sharding import AxisType
from jaxtyping import Array

from leadline.model.attention.mask import Tiling
from leadline.model.attention.scores import AttentionInputs
from leadline.model.mesh import platform

# "gpu", "tpu", or "interpreter", which runs the kernels of a GPU on a CPU, for tests.
Machine = str


class Tile(NamedTuple):
    """Queries and keys whose scores exist at once, and the warps of a GPU that share them."""

    block_q: int
    block_k: int
    warps: int = 8


class Launch(NamedTuple):
    """What a kernel is compiled for."""

    machine: Machine
    tile: Tile
    vmem_bytes: int  # of a TPU, held of a head


def has_kernel(device: str, tokens: int, channels: int, itemsize: int) -> bool:
    """Whether a kernel can attend over `tokens` tokens of heads with `channels` channels of `itemsize` bytes.

    A TPU holds two copies of two arrays of a head, one that is read and one that comes next, in half of its vector memory. A
    GPU holds some tiles in 99 KiB of shared memory.
    """
    if device == "tpu":
        from jax.experimental.pallas import tpu

        return 2 * _vmem_bytes(tokens, channels, itemsize) <= tpu.get_tpu_info().vmem_capacity_bytes
    return device in ("gpu", "interpreter") and channels * itemsize <= 512


def _vmem_bytes(tokens: int, channels: int, itemsize: int) -> int:
    """Bytes that a TPU holds of a head; its vectors have 128 lanes."""
    return 2 * 2 * tokens * math.ceil(channels / 128) * 128 * itemsize


def launch_of(x: AttentionInputs, tiling: Tiling, *, gradient: bool) -> Launch:
    """The machine of the mesh and its tile: on a GPU the fastest of eleven in bfloat16 with 64 channels on an H200.

    For 32 texts of 1024 tokens with 12 heads, forward and gradient took 0.43 and 0.78 ms with these tiles, and 0.56 and 0.84 ms
    with (128, 64) and 8 warps, and (64, 64) and 4. Wider heads have not been timed: their tiles spill no registers.
    """
    machine = tiling.platform or platform()
    channels, itemsize = max(x.q.shape[-1], x.v.shape[-1]), x.q.dtype.itemsize
    padded = channels_of(machine, channels)
    if tiling.kernel is not None:
        tile = Tile(*tiling.kernel)
    elif machine == "tpu":
        tile = Tile(512, 512)
    elif padded > 128 or itemsize > 2:
        tile = Tile(32, 32)
    elif padded > 64:
        tile = Tile(64, 64) if gradient else Tile(128, 64)
    else:
        tile = Tile(128, 64, warps=4) if gradient else Tile(64, 64, warps=4)
    return Launch(machine, tile, _vmem_bytes(max(x.q.shape[3], x.k.shape[2]), channels, itemsize))


def on_each_device(function: Callable[..., Any], out_specs: Any, *operands: Any) -> Any:
    """`function` of the part of `operands` that each device has: XLA cannot partition what a kernel reads."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return function(*operands)
    axes = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    specs = jax.tree.map(lambda x: jax.typeof(x).sharding.spec, operands)
    return jax.shard_map(function, in_specs=specs, out_specs=out_specs, axis_names=axes, check_vma=False)(*operands)


def channels_of(machine: Machine, channels: int) -> int:
    """The channels of an array in a kernel: powers of two on a GPU."""
    return channels if machine == "tpu" else max(16, 2 ** (channels - 1).bit_length())


def launched(
    kernel: Callable[..., None],
    launch: Launch,
    operands: Any,
    blocks: Any,
    outputs: Sequence[jax.ShapeDtypeStruct],
    specs: Sequence[Any],
    *,
    tiles: int,
) -> Sequence[Array]:
    """The outputs of a program for each text, head and tile.

    Args:
        kernel: writes one block of each output.
        launch: the machine and its tile.
        operands: what the kernel reads.
        blocks: the block specs of the operands.
        outputs: shapes [B, N, …] of the outputs.
        specs: their block specs.
        tiles: number of tiles of a head.
    """
    call = pl.pallas_call(
        functools.partial(kernel, tile=launch.tile, machine=launch.machine),
        grid=_grid(launch.machine, outputs[0].shape[0], outputs[0].shape[1], tiles),
        in_specs=(blocks,),
        out_specs=specs,
        out_shape=outputs,
        **_compiler_params(launch),
    )
    return call(operands)


def _grid(machine: Machine, texts: int, heads: int, tiles: int) -> tuple[int, int, int]:
    """A TPU goes through the last axis first, with what it holds of the others on the chip; a GPU through the first."""
    return (tiles, heads, texts) if machine == "gpu" else (texts, heads, tiles)


def tile_number(machine: Machine) -> Array:
    """The number of the program's tile."""
    return pl.program_id(0 if machine == "gpu" else 2)


def block(machine: Machine, x: Any, tokens: int | None, shared: int = 1, *, axis: Literal[2, 3] = 2) -> Any:
    """The block spec of an array [B, heads, ., .].

    Args:
        machine: decides the order of the grid.
        x: the array or its shape.
        tokens: the size along `axis` of the program's tile; None is all of the array.
        shared: query heads that share one head of the array.
        axis: the axis of tokens.
    """
    size = {axis: x.shape[axis] if tokens is None else tokens}

    def at(*indices: Array) -> tuple[Any, ...]:
        text, head, tile = reversed(indices) if machine == "gpu" else indices
        return text, jax.lax.div(head, jnp.int32(shared)), *(tile if a == axis and tokens is not None else 0 for a in (2, 3))

    return pl.BlockSpec((None, None, *(size.get(a, x.shape[a]) for a in (2, 3))), at)


def numbers(machine: Machine) -> Any:
    """The block spec of an array whose numbers are read one by one."""
    if machine != "tpu":
        return pl.BlockSpec()
    from jax.experimental.pallas import tpu

    return pl.BlockSpec(memory_space=tpu.SMEM)


def _compiler_params(launch: Launch) -> dict[str, Any]:
    if launch.machine == "interpreter":
        return {"interpret": True}
    if launch.machine == "gpu":
        from jax.experimental.pallas import triton

        return {"compiler_params": triton.CompilerParams(num_warps=launch.tile.warps, num_stages=2)}
    from jax.experimental.pallas import tpu

    limit = launch.vmem_bytes + 12 * 2**20  # tiles of scores in float32, 1 MiB each, and sums
    return {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel",) * 3, vmem_limit_bytes=limit)}
