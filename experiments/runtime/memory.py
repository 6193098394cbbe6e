"""The memory that a device of this machine has."""

import os
import sys
from pathlib import Path

import jax

# Where Linux says what a container may take, in its second and first form.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def device_memory() -> int | None:
    """Bytes of an accelerator, or of this machine where JAX computes on its CPU; None where nothing says so."""
    if jax.default_backend() != "cpu":
        return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    sizes = [int(path.read_text()) for path in LIMITS if path.exists() and path.read_text().strip().isdigit()]
    if sys.platform != "win32":
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(sizes, default=None)
