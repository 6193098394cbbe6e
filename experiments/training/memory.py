"""What a group takes of the memory of its devices, estimated before anything is compiled."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp

from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.cpu import memory_bytes
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.step import init_state, values_of
from leadline.model.mesh import make_mesh

GB = 1e9
# Where Linux says what a container may take, in its second and first form.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available_memory() -> float:
    """Bytes of a device, of a CPU those that this process may take; infinite where nobody says."""
    if jax.default_backend() != "cpu":
        return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", math.inf)
    limits = [int(path.read_text()) for path in LIMITS if path.exists() and path.read_text().strip().isdigit()]
    return float(min([memory_bytes() or math.inf, *limits]))


def least_memory(group: RunGroup) -> float:
    """A lower bound of the bytes that a device needs: weights, moments, gradients, and logits with their gradient."""
    state, gradients, logits = _parts(group)
    members = len(group.members)
    if jax.default_backend() == "cpu":  # all devices share one memory, and train a model each at a time
        return float(members * state + min(members, group.mesh.shape["arm"]) * (gradients + logits))
    return members * (state + gradients + logits) / group.mesh.size


def parameters(group: RunGroup) -> int:
    """Weights of one model."""
    return _parts(group)[1] // 4


def check_memory(group: RunGroup) -> None:
    """Raises UserError if a group cannot fit on its devices, with the sizes."""
    needed, available = least_memory(group), available_memory()
    if needed <= available:
        return
    state, gradients, logits = _parts(group)
    names, members = group.names, len(group.members)
    raise UserError(
        f"{group.study}: {names}: {members} models of {parameters(group):,} parameters need at least {needed / GB:,.1f} GB a "
        f"device ({state / GB:,.1f} GB of weights and moments, {gradients / GB:,.1f} GB of gradients and {logits / GB:,.1f} GB "
        f"of logits each), and there are {available / GB:,.1f} GB: make model.width, model.layers or train.batch smaller, or "
        "give fewer seeds at once"
    )


def _parts(group: RunGroup) -> tuple[int, int, int]:
    """Bytes of one model's training state, of its gradients, and of the logits of a batch with their gradient."""
    arm, (model, data, train, _) = group.members[0].arm, group.structure
    values = values_of(arm.model, train, tables(arm.model, arm.original_length, data.length))
    with jax.set_mesh(make_mesh()):
        state = jax.eval_shape(lambda: init_state(jnp.uint32(0), values, model, train))
    return _bytes(state), _bytes(state.params), 2 * 4 * train.batch * data.length * model.vocabulary


def _bytes(tree: object) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
