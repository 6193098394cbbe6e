"""Processes that run the same programs in step, on all devices of one host or of many: the first one decides and writes.

JAX's own runtime finds the processes and connects them. Nothing here does anything where there is one process alone.
"""

import json
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all, process_allgather

from leadline.experiments.runtime.errors import UserError

AUTO = "auto"  # the coordinator that Slurm, Open MPI, Kubernetes or Cloud TPU name
# Seconds until a process that has ended, or that waits to end, takes the others for gone.
SILENCE = 20


class Place(NamedTuple):
    """Of a process among those that run together.

    Attributes:
        coordinator: HOST:PORT of the first process, or AUTO.
        processes: how many there are; None where AUTO finds it.
        process: the number of this one, from 0 on; None where AUTO finds it.
    """

    coordinator: str
    processes: int | None = None
    process: int | None = None


def join(place: Place) -> None:
    """Connects this process with the others. To be called before JAX finds its devices.

    Raises:
        UserError: where the others cannot be found.
    """
    coordinator, processes, process = place
    if coordinator == AUTO:
        told = {}
    elif processes is None or process is None or not 0 <= process < processes or not _is_address(coordinator):
        raise UserError(
            f"--coordinator {coordinator}: say HOST:PORT of the first process, --processes N and --process 0 … N - 1; or auto "
            "under Slurm, Open MPI, Kubernetes and on Cloud TPU"
        )
    else:
        told = {"coordinator_address": coordinator, "num_processes": processes, "process_id": process}
    try:
        jax.distributed.initialize(**told, heartbeat_timeout_seconds=SILENCE, shutdown_timeout_seconds=SILENCE)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UserError(f"--coordinator {coordinator}: the processes cannot be connected ({reason})") from error


def _is_address(text: str) -> bool:
    """Whether this is HOST:PORT."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 2**16


def leads() -> bool:
    """Whether this process decides and writes."""
    return jax.process_index() == 0


def agreed(value: Any = None) -> Any:
    """What the first process gives, as JSON, in every process. Each of them has to call this."""
    content = np.frombuffer(json.dumps(value).encode(), np.uint8)
    size = int(broadcast_one_to_all(np.int32(len(content))))
    sent = np.resize(content, size)  # of the others nothing is sent
    return json.loads(np.asarray(broadcast_one_to_all(sent), np.uint8).tobytes())


def on_host(tree: Any) -> Any:
    """A tree of arrays, whose parts may lie on the devices of several processes, as NumPy arrays in each of them."""
    return jax.device_get(tree) if jax.process_count() == 1 else process_allgather(tree, tiled=True)
