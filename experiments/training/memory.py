"""What a group takes of the memory of its devices, and how many models a group may have for that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.cpu import memory_bytes
from leadline.experiments.runtime.devices import Accelerator
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.live import inside, live_bytes
from leadline.experiments.training.group import Member, RunGroup, run_group
from leadline.experiments.training.programs import traced_step
from leadline.experiments.training.step import init_state, values_of
from leadline.model.decoder_loss import chunk_tokens
from leadline.model.mesh import make_mesh

GB = 1e9
# Where Linux says what a container may take, in its second and first form.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
# Of the memory, what a group of several models is given. The rest is for its data and for copies that are saved.
SHARE = 0.9
# A step takes at most this many times what `least_memory` says: 2 to 6 times in configs/sinks_lm.toml and configs/grid.toml, 63
# times in configs/accelerator/depth.toml, whose 24 layers keep the activations of 131k tokens.
MOST = 100.0
# A step takes at most this many times what `traced_memory` says: 1 to 1.4 times in configs/sinks_lm.toml.
UNSURE = 1.5


@dataclass(frozen=True)
class Room:
    """How large a new group may be.

    Attributes:
        models: most; None: as many of one structure as the memory holds.
        device: an accelerator that will train it; None: the devices of this process.
        devices: how many of that accelerator.
    """

    models: int | None = None
    device: Accelerator | None = None
    devices: int = 1

    def on_a_device(self, members: int) -> float:
        """Models of a group on one of the named devices; a part of one where these are more."""
        return members / self.devices if members < self.devices else float(math.ceil(members / self.devices))


def fitting_groups(study: str, members: Sequence[Member], room: Room) -> list[RunGroup]:
    """Members of one structure in groups of equal size, as large as there is room for; the last one may be smaller.

    Whatever else takes memory on a CPU does not count, so that the same study on the same machine has the same groups.

    Raises:
        UserError: if a model does not fit alone, or data do not suffice.
    """
    size = min(room.models or len(members), len(members))
    while True:
        first = run_group(study, members[:size])
        fitting = _fitting(first, room)
        if fitting == size:
            break
        size = fitting
    return [first, *(run_group(study, members[start : start + size]) for start in range(size, len(members), size))]


def _fitting(group: RunGroup, room: Room) -> int:
    """How many members of a group fit, at least one: all, or a number to try next."""
    members, available = len(group.members), available_memory(room)
    needed, source = least_memory(group, room), "a lower bound"
    budget = available * SHARE
    if needed * MOST <= budget:
        return members
    if needed <= budget and room.device is None and jax.process_count() == 1:  # others would have to compile with this one
        needed, source = program_memory(group), "of its compiled step"
    elif needed <= budget:
        needed, source, budget = traced_memory(group, room), "an estimate", budget / UNSURE
    if needed <= budget:
        return members
    if members > 1:
        # Some memory does not depend on the number of models, so this is rather too many, and tried again.
        fewer = min(int(members * budget / needed) or members // 2, members - 1)
        devices = room.devices if room.device else group.mesh.shape["arm"]
        return max(fewer - fewer % devices if fewer > devices else fewer, 1)
    if needed > available:
        _refuse(group, needed, source, available, "make model.width, model.layers or train.batch smaller")
    return members


def check_memory(group: RunGroup, room: Room) -> None:
    """Raises UserError if a group that goes on with the members that it had cannot fit on its devices."""
    needed, available = least_memory(group, room), available_memory(room)
    if needed > available and group.unfinished is not None:
        remedy = f"go on where there is more, or delete {group.unfinished.folder} to begin anew with smaller groups"
        _refuse(group, needed, "a lower bound", available, remedy)


def _refuse(group: RunGroup, needed: float, source: str, available: float, remedy: str) -> None:
    parts = parts_of(group)
    raise UserError(
        f"{group.study}: {group.names}: training {len(group.members)} at once, of {parts.weights:,} weights each, needs "
        f"{needed / GB:,.1f} GB per device ({source}), which has {available / GB:,.1f} GB. Each has {parts.state / GB:,.1f} GB "
        f"of weights and moments, {parts.gradients / GB:,.1f} GB of gradients and {parts.logits / GB:,.1f} GB of logits; "
        f"{remedy}"
    )


def available_memory(room: Room) -> float:
    """Bytes of a device, of a CPU those that this process may take; infinite where nobody says."""
    if room.device is not None:
        return room.device.usable
    if jax.default_backend() != "cpu":
        return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", math.inf)
    limits = [int(path.read_text()) for path in LIMITS if path.exists() and path.read_text().strip().isdigit()]
    return float(min([memory_bytes() or math.inf, *limits]))


def least_memory(group: RunGroup, room: Room) -> float:
    """A lower bound of the bytes that a device needs: weights, moments, gradients, and logits with their gradient."""
    state, gradients, logits = parts_of(group)
    members = len(group.members)
    if room.device is not None:
        return room.on_a_device(members) * (state + gradients + logits)
    if jax.default_backend() == "cpu":  # all devices share one memory, and train a model each at a time
        return float(members * state + min(members, group.mesh.shape["arm"]) * (gradients + logits))
    return members * (state + gradients + logits) / group.mesh.size


def traced_memory(group: RunGroup, room: Room) -> float:
    """An estimate of `program_memory` from the traced step, of a device that is not here too, without compiling.

    A group for a device that is not here is as many times one of its models, traced for the devices that are.
    """
    if room.device is not None:
        group, times = run_group(group.study, group.members[:1]), room.on_a_device(len(group.members))
    else:
        times = 1.0 if jax.default_backend() == "cpu" else 1.0 / group.mesh.size
    # Inside, shapes are those of one device of the arm axis.
    live = group.mesh.shape["arm"] * live_bytes(inside(traced_step(group).jaxpr.jaxpr))
    if room.device is not None or jax.default_backend() != "cpu":  # the new state takes the place of the old one
        live -= len(group.members) * parts_of(group).state
    return times * live


def program_memory(group: RunGroup) -> float:
    """Bytes that the compiled training step takes of a device, of a CPU on all its devices together.

    Returns:
        The compiler's own analysis; infinite where the compiler itself finds that the step does not fit.
    """
    try:
        analysis = traced_step(group).lower().compile().memory_analysis()
    except jax.errors.JaxRuntimeError as error:  # of a TPU
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return math.inf
    arguments, results = analysis.argument_size_in_bytes, analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    devices = group.mesh.size if jax.default_backend() == "cpu" else 1
    return float(devices * (arguments + results + analysis.temp_size_in_bytes))


class Parts(NamedTuple):
    """Bytes of one model."""

    state: int  # weights and moments
    gradients: int
    logits: int  # of a chunk of the batch, with their gradient

    @property
    def weights(self) -> int:
        """Their number, with sink logits that are not trained: all are float32."""
        return self.gradients // 4


def parts_of(group: RunGroup) -> Parts:
    """What a model of a group takes at least."""
    arm, (model, data, train, _) = group.members[0].arm, group.structure
    values = values_of(arm.model, train, tables(arm.model, arm.original_length, data.length))
    with jax.set_mesh(make_mesh()):
        state = jax.eval_shape(lambda: init_state(jnp.uint32(0), values, model, train))
        tokens = chunk_tokens(train.batch, data.length, model.vocabulary)
    return Parts(_bytes(state), _bytes(state.params), 2 * 4 * train.batch * tokens * model.vocabulary)


def _bytes(tree: object) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
