"""The mesh: the axis names, and the only place that sees devices.

"data" shards the batch and, FSDP-style, the D axis of every matrix; "model" shards N, K and F; "text" spreads the tokens of a
text that is too long for one device (model.spread); "arm" spreads the members of a population of models (experiments.train) and
never meets the others inside a model. Every axis may be 1.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh

AXES = ("arm", "text", "data", "model")


def make_mesh(*, arm: int = 1, text: int = 1, data: int = 1, model: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """The explicit-mode mesh over the first arm * text * data * model devices. ValueError if there are fewer."""
    available = jax.devices() if devices is None else devices
    sizes = arm, text, data, model
    wanted = math.prod(sizes)
    if wanted > len(available):
        asked = ", ".join(f"{name}={size}" for name, size in zip(AXES, sizes, strict=True))
        raise ValueError(f"the mesh ({asked}) needs {wanted} devices, {len(available)} here")
    return jax.make_mesh(sizes, AXES, axis_types=(AxisType.Explicit,) * len(AXES), devices=available[:wanted])


def platform() -> str:
    """What the devices of the mesh that is set are: "cpu", "gpu" or "tpu"; "cpu" too where it stands for no devices."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return "cpu" if device is None else device.platform
