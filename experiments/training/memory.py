"""How much memory a group needs at the least, said before anything is compiled."""

import math
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.step import init_state, values_of
from leadline.model.mesh import make_mesh

GB = 1e9
# Where Linux says what a container may take, in its second and first form.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_memory(group: RunGroup) -> None:
    """Compares a lower bound with what the devices have: weights, moments, gradients, and logits with their gradient.

    Raises:
        UserError: if the group cannot fit, with the sizes.
    """
    available = device_memory()
    if available is None:
        return
    arm, (model, data, train, _) = group.members[0].arm, group.structure
    values = values_of(arm.model, train, tables(arm.model, arm.original_length, data.length))
    with jax.set_mesh(make_mesh()):
        state = jax.eval_shape(lambda: init_state(jnp.uint32(0), values, model, train))
    parameters = _bytes(state.params)
    logits = 2 * 4 * train.batch * data.length * model.vocabulary
    members = len(group.members)
    if jax.default_backend() == "cpu":  # all devices share one memory, and train a model each at a time
        at_once = min(members, group.mesh.shape["arm"])
        needed = members * _bytes(state) + at_once * (parameters + logits)
    else:
        needed = members * (_bytes(state) + parameters + logits) / group.mesh.size
    if needed > available:
        raise UserError(
            f"{group.study}: {group.names}: {members} models of {parameters // 4:,} parameters need at least "
            f"{needed / GB:,.1f} GB a device ({_bytes(state) / GB:,.1f} GB of weights and moments, {parameters / GB:,.1f} GB "
            f"of gradients and {logits / GB:,.1f} GB of logits each), and there are {available / GB:,.1f} GB: make "
            "model.width, model.layers or train.batch smaller, or give fewer seeds at once"
        )


def _bytes(tree: object) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def device_memory() -> int | None:
    """Bytes of an accelerator, or of this machine where JAX computes on its CPU; None where nothing says so."""
    if jax.default_backend() != "cpu":
        return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    sizes = [int(path.read_text()) for path in LIMITS if path.exists() and path.read_text().strip().isdigit()]
    if sys.platform != "win32":
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(sizes, default=None)
