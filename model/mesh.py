"""The mesh: its axes, the partition specs of activations, and the only place that sees devices.

"data" shards the batch and, FSDP-style, the D axis of every matrix; "model" shards N, K and F; "text" shards the tokens of a
text that is too long for one device (model.context_parallel); "arm" shards the members of an ensemble of models. Every axis may
be 1. Without a mesh (jax.set_mesh) every function of the model computes on one device.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, Shaped

TEXT = "text"
AXES = ("arm", TEXT, "data", "model")

TEXTS = P("data", None)  # [B, T]
RESIDUAL = P("data", None, None)  # [B, T, D]
HIDDEN = P("data", None, "model")  # [B, T, F]
HEADS = P("data", None, "model", None)  # [B, T, N, H]
GROUPS = P("model", None)  # [K, G] and [K, H]
ROWS_OF_GROUPS = P(None, "model", None, None)  # [1, K, R, S]


def heads_first(rank: int) -> P:
    """The spec of [B, N, …] or [B, K, …]: batch and heads sharded, the rest not."""
    return P("data", "model", *([None] * (rank - 2)))


def make_mesh(*, arm: int = 1, text: int = 1, data: int = 1, model: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """The explicit-mode mesh over the first arm * text * data * model devices.

    Args:
        arm: size of the axis of ensemble members.
        text: size of the axis of tokens.
        data: size of the axis of the batch.
        model: size of the axis of heads and hidden units.
        devices: the devices to take; None for those of this process where they suffice, else for those of all processes.

    Raises:
        ValueError: if there are fewer devices than the mesh needs.
    """
    sizes = arm, text, data, model
    needed = math.prod(sizes)
    if devices is None:
        devices = jax.local_devices() if needed <= jax.local_device_count() else jax.devices()
    if needed > len(devices):
        axes = ", ".join(f"{name}={size}" for name, size in zip(AXES, sizes, strict=True))
        raise ValueError(f"the mesh ({axes}) needs {needed} devices, {len(devices)} here")
    return jax.make_mesh(sizes, AXES, axis_types=(AxisType.Explicit,) * len(AXES), devices=devices[:needed])


def on_mesh(spec: P) -> P | None:
    """`spec` as an `out_sharding`: None where no mesh is set."""
    return None if jax.sharding.get_abstract_mesh().empty else spec


def place(x: Array, spec: P) -> Array:
    """x with the sharding `spec`; x itself where no mesh is set."""
    return x if jax.sharding.get_abstract_mesh().empty else jax.reshard(x, spec)


def put(x: Shaped[np.ndarray, "..."], spec: P) -> Array:
    """An array of the host on the devices of the mesh that is set; without a copy where the host is the device."""
    mesh = jax.sharding.get_mesh()
    return jax.device_put(x, None if mesh.empty else NamedSharding(mesh, spec), may_alias=True)


def axis_size(axis: str) -> int:
    """The number of devices along a mesh axis, 1 where no mesh is set."""
    return jax.sharding.get_abstract_mesh().shape.get(axis, 1)


def platform() -> str:
    """The platform of the mesh that is set, "cpu", "gpu" or "tpu"; that of the default device where none is set."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return jax.default_backend()
    return "cpu" if mesh.abstract_device is None else mesh.abstract_device.platform


def first_position(tokens: int) -> Int[Array, ""]:
    """The position in the text of the first of this device's `tokens` tokens, inside a shard_map over the axis "text"."""
    return tokens * jax.lax.axis_index(TEXT)


def gather_tokens(x: Array, axis: int) -> Array:
    """The tokens of all devices: T along `axis` becomes S. The gradient is `sum_tokens`."""
    gathered: Array = _gathered(x, axis)  # pyright: ignore[reportAssignmentType]
    return gathered


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gathered(x: Array, axis: int) -> Array:
    return jax.lax.all_gather(x, TEXT, axis=axis, tiled=True)


def sum_tokens(x: Array, axis: int) -> Array:
    """The sum over all devices, of which each keeps its tokens: S along `axis` becomes T."""
    # Not psum_scatter, which JAX 0.10.2 cannot lower where other axes of the mesh are explicit.
    tokens = x.shape[axis] // jax.lax.axis_size(TEXT)
    return jax.lax.dynamic_slice_in_dim(jax.lax.psum(x, TEXT), first_position(tokens), tokens, axis)


_gathered.defvjp(lambda x, axis: (_gathered(x, axis), None), lambda axis, _, cotangent: (sum_tokens(cotangent, axis),))
