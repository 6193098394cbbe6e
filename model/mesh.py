"""The mesh: the axis names, and the only place that sees devices.

"data" shards the batch and, FSDP-style, the D axis of every matrix; "model" shards N, K and F; "arm" spreads the members of a
population of models (experiments.train) and never meets the other two inside a model. Every axis may be 1.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh

AXES = ("arm", "data", "model")


def make_mesh(*, arm: int = 1, data: int = 1, model: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """The explicit-mode mesh over the first arm * data * model devices. ValueError if there are fewer."""
    available = jax.devices() if devices is None else devices
    wanted = arm * data * model
    if wanted > len(available):
        raise ValueError(f"the mesh (arm={arm}, data={data}, model={model}) needs {wanted} devices, {len(available)} here")
    return jax.make_mesh((arm, data, model), AXES, axis_types=(AxisType.Explicit,) * 3, devices=available[:wanted])
