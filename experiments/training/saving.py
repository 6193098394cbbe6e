"""What a run keeps while a group of models trains.

A group is saved whole, so that a run that is killed at any moment goes on with the same members at the same step, and ends
with the same bits. Its folder, `results/STUDY/.group-DIGEST`, is removed when all members are recorded
(leadline.experiments.training.recording).
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import jax
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from leadline.experiments.records.json_file import line, sha256
from leadline.experiments.records.measurement import Point, measurements_of, reading
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.records.record import NO_CURVE, Curve
from leadline.experiments.records.store import is_recorded
from leadline.experiments.runtime.ensemble import stack, unstack
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.hosts import leads, on_host
from leadline.experiments.runtime.worker import Worker
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, RunGroup, Unfinished, claim_of
from leadline.experiments.training.step import TrainState, first_not_finite
from leadline.model.decoder import Decoder

PREFIX, REMOVED = ".group-", ".removed-"


@dataclass
class History:
    """The training of a group so far."""

    curves: list[Curve]  # of each member
    diverged: list[tuple[int, str] | None]  # of each member the step at which it diverged and what is said of it
    seconds: float = 0.0  # that the group has trained for
    workers: list[dict[str, Any]] = field(default_factory=list)  # that trained it (leadline.experiments.records.record.Worked)

    def add(self, step: int, points: Sequence[Point], losses: np.ndarray | None, quantities: Mapping[str, Quantity]) -> None:
        """Appends a point to each curve: one number a quantity, and the loss of the batch if there was one."""
        for i, point in enumerate(points):
            numbers = [entry for entry in measurements_of(point, quantities) if "layer" not in entry.dims]
            values = {entry.reading: math.nan if entry.value is None else entry.value for entry in numbers}
            values[reading("train_loss")] = math.nan if losses is None else float(losses[i])
            self.curves[i] = self.curves[i].extended(step, values)

    def note_divergence(self, step: int, metrics: Mapping[str, np.ndarray], limit: float) -> list[tuple[int, str]]:
        """Marks the members of which, for the first time, the loss is above the limit [nats] or anything is not finite.

        Args:
            step: whose metrics these are.
            metrics: of `train_step`, of every member.
            limit: of the loss.

        Returns:
            Each of these members, with what is said of it.
        """
        new = []
        for i, loss in enumerate(metrics["loss"]):
            first = first_not_finite(loss, metrics["finite_layers"][i], metrics["finite_gradients"][i])
            if self.diverged[i] is None and (first is not None or loss > limit):
                why = f"it counts as diverged above {limit:.2f} nats" if first is None else f"{first} was not finite first"
                message = f"the loss was {loss:g} at step {step}; {why}"
                self.diverged[i] = step, message
                new.append((i, message))
        return new


# On the host, the weights of every member, the last point of its curve by layer and head, and the history of the group.
Trained = tuple[list[Decoder], list[Point], History]


class Kept(BaseModel):
    """What `save_group` keeps of a group beside its weights. Each list except `workers` has one entry for each member."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    members: list[str]
    tokenizers: list[str | None]
    curves: list[list[dict[str, Any]]]
    diverged: list[Annotated[tuple[int, str], Field(strict=False)] | None]  # JSON has no tuples
    seconds: float
    workers: list[dict[str, Any]] = []

    @model_validator(mode="after")
    def _check(self) -> "Kept":
        for rows in self.curves:
            Curve.of_rows(rows)
        if {len(self.tokenizers), len(self.curves), len(self.diverged)} != {len(self.members)}:
            raise ValueError("not an entry for each member")
        return self


def group_folder(group: RunGroup) -> Path:
    """Named by the members in their order."""
    ids = [member.id for member in group.members]
    return group.members[0].folder.parents[1] / f"{PREFIX}{sha256(line(ids).encode())[:12]}"


def save_group(group: RunGroup, step: int, state: TrainState, history: History) -> None:
    """The state of all members after a step, and their history so far.

    Raises:
        UserError: when the disk refuses.
        Lost: if another process has taken over.
    """
    group.check_claim()
    rows = jax.tree.map(lambda leaf: leaf[: len(group.members)], on_host(state))
    if not leads():
        return
    extra = {
        "members": [member.id for member in group.members],
        "tokenizers": [member.tokenizer_digest for member in group.members],
        "curves": [curve.rows() for curve in history.curves],
        "diverged": history.diverged,
        "seconds": history.seconds,
        "workers": history.workers,
    }
    checkpoint.save(group_folder(group), step, rows, extra, group.check_claim)


def unfinished_groups(study: Path, tell: Callable[[str], None]) -> list[Unfinished]:
    """The groups of a study that did not get to their records, the one of the highest step first.

    `tell` gets a line for each checkpoint that cannot be used.
    """
    groups = [unfinished(folder, tell) for folder in sorted(study.glob(f"{PREFIX}*"))]
    return sorted(filter(None, groups), key=lambda group: -group.step)


def unfinished(folder: Path, tell: Callable[[str], None]) -> Unfinished | None:
    """The last checkpoint of the folder of a group that can be used; `tell` gets a line for each that cannot."""
    step, notes = checkpoint.latest(folder)
    for note in notes:
        tell(note)
    if step is None:
        return None
    try:
        extra = checkpoint.extra_of(folder, step)
    except FileNotFoundError:  # a run that is at work here has removed it meanwhile
        return None
    try:
        Kept.model_validate(extra)
    except ValidationError:
        tell(f"{folder / str(step)}: its manifest is not that of a group of models; the checkpoint is passed over")
        return None
    return Unfinished(folder, step, extra)


def resumed(group: RunGroup, state: TrainState) -> tuple[TrainState, History]:
    """The state and the history to go on from: of the last checkpoint, or of step 0, whose `state` is given.

    Raises:
        UserError: if weights that another arm left cannot be used.
    """
    begun = group.unfinished
    if begun is None:
        history = History([NO_CURVE] * len(group.members), [None] * len(group.members), workers=_worked(group))
        if all(member.predecessor is None for member in group.members):
            return state, history
        states = unstack(state, len(group.members))
        for i, member in enumerate(group.members):
            if member.predecessor is not None:  # the optimiser begins anew
                folder, step = member.predecessor.checkpoints, member.predecessor.arm.train.steps
                _check_tokenizer(member, checkpoint.extra_of(folder, step)["tokenizer"], folder)
                states[i] = states[i].replace(params=checkpoint.restore(folder, step, states[i].params))
        return stack(states, group.mesh), history
    extra, rows = begun.extra, [begun.extra["members"].index(member.id) for member in group.members]
    for member, row in zip(group.members, rows, strict=True):
        _check_tokenizer(member, extra["tokenizers"][row], begun.folder)
    template = jax.tree.map(lambda leaf: np.zeros((len(extra["members"]), *leaf.shape[1:]), leaf.dtype), state)
    saved = checkpoint.restore(begun.folder, begun.step, template)
    members = [jax.tree.map(lambda leaf, row=row: leaf[row], saved) for row in rows]
    curves = [Curve.of_rows(extra["curves"][row]) for row in rows]
    diverged = [None if (end := extra["diverged"][row]) is None else (end[0], end[1]) for row in rows]  # JSON has no tuples
    workers = [*extra.get("workers", []), *_worked(group)]
    return stack(members, group.mesh), History(curves, diverged, extra["seconds"], workers)


def _worked(group: RunGroup) -> list[dict[str, Any]]:
    """That this process trains the group, and from which step on."""
    if group.claim is None:
        return []
    owner = group.claim.owner
    return [{"host": owner["host"], "pid": owner["pid"], "began": owner["began"], "first_step": group.first_step}]


def remove_recorded(study: Path, worker: Worker) -> None:
    """Removes the checkpoints of groups of a study whose members are all recorded, and what a killed process left of any."""
    for folder in study.glob(f"{REMOVED}*"):
        shutil.rmtree(folder, ignore_errors=True)  # another process may be at it too
    for folder in study.glob(f"{PREFIX}*"):
        members = (checkpoint.newest_extra(folder) or {}).get("members", ())
        if members and all(is_recorded(study / name) for name in members):
            claim = worker.claim([claim_of(study, name) for name in members])
            if claim is not None:
                with claim:
                    remove(folder)


def remove(folder: Path) -> None:
    """Removes the checkpoints of a group. The folder is renamed first, so that half of it is no unfinished group."""
    removed = folder.with_name(f"{REMOVED}{token_hex(4)}")
    if folder.exists():
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def _check_tokenizer(member: Member, digest: Any, folder: Path) -> None:
    if digest != member.tokenizer_digest:
        raise UserError(
            f"{folder}: these weights were trained with another tokenizer than {member.arm.name!r} has, whose ids mean other "
            "text; give it that one's data.tokenizer and corpus"
        )
