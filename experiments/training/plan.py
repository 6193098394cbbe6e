"""A study's arms × seeds: trained in groups that share compiled programs, measured, recorded, and never run again."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from leadline.experiments.config.data import Data
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.data.source import Source, open_source, vocabulary_size
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.records.provenance import Provenance, arm_digest
from leadline.experiments.records.store import is_recorded, read_record, record_folder
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import locked
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, Predecessor, RunGroup, Unfinished, run_group, structure
from leadline.experiments.training.loop import train_group
from leadline.experiments.training.memory import check_memory
from leadline.experiments.training.recording import record_group
from leadline.experiments.training.saving import group_folder, remove, unfinished_groups


@dataclass(frozen=True)
class Outcome:
    """What a run of a study came to.

    Attributes:
        digests: of each arm, by (study, arm).
        programs: names of those that were compiled.
        trained: models.
        recorded: models that were on record before.
    """

    digests: dict[tuple[str, str], str]
    programs: tuple[str, ...]
    trained: int
    recorded: int


def run_arms(
    study: str,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    results: Path,
    progress: Progress,
    interruption: Interruption,
    origin: Provenance,
) -> Outcome:
    """Trains what `results` has no record of. Members of equal structure share their programs.

    An arm that starts from another one comes behind it, with the weights of that one's last checkpoint. A run that was killed
    or stopped goes on with the groups that it had.

    Raises:
        UserError: before anything is trained, if another run is at work on this study, or if data, memory or weights to start
            from do not suffice; later, if the disk refuses.
        Interrupted: when asked to stop, with everything kept.
    """
    with locked(results / study):
        sources = {
            data: open_source(data, results / ".cache", progress.encoded) for data in dict.fromkeys(a.data for a in arms)
        }
        members = _members(study, arms, seeds, results, sources)
        waiting = [member for member in members if not member.recorded]
        _check_predecessors(waiting)
        groups = _groups(study, members, unfinished_groups(results / study, progress))
        _check(groups)
        programs: list[str] = []
        missed = 0
        for number, planned in enumerate(groups, start=1):
            group = _startable(planned, progress)
            missed += len(planned.members) - (0 if group is None else len(group.members))
            if group is not None:
                title = f"group {number} of {len(groups)}: {study}: {group.names} x {len({m.seed for m in group.members})}"
                _run_group(group, title, programs, progress, interruption, origin)
    digests = {(study, member.arm.name): member.digest for member in members}
    return Outcome(digests, tuple(programs), len(waiting) - missed, len(members) - len(waiting))


def _run_group(
    group: RunGroup, title: str, programs: list[str], progress: Progress, interruption: Interruption, origin: Provenance
) -> None:
    unfinished = [] if group.unfinished is None else [group.unfinished.folder]
    began = time.monotonic()
    progress.start(title, group.structure.train.steps, 0 if group.unfinished is None else group.unfinished.step)
    progress.status("compiling")
    with jax.set_mesh(group.mesh):
        trained = train_group(group, programs, progress, interruption)
        progress.status("measuring")
        record_group(group, trained, programs, origin)
    remove([group_folder(group), *(folder for folder in unfinished if _all_recorded(folder, group))])
    progress.note(
        f"{group.study}: {group.names}: {len(group.members)} models on {group.mesh.shape['arm']} devices in "
        f"{time.monotonic() - began:.0f} s"
    )


def _all_recorded(folder: Path, group: RunGroup) -> bool:
    """Whether every member of the checkpoint that a group went on from has a record; some may not be of this run."""
    unfinished = group.unfinished
    return unfinished is not None and all(is_recorded(folder.parent / name) for name in unfinished.members)


def _members(
    study: str, arms: Sequence[Arm], seeds: Sequence[int], results: Path, sources: Mapping[Data, Source]
) -> list[Member]:
    """Every arm and seed, each arm behind the one that it starts from."""
    by_name = {arm.name: arm for arm in arms}
    digests: dict[str, str] = {}
    members = []
    for arm in sorted(arms, key=lambda arm: _depth(arm, by_name)):
        source = sources[arm.data]
        first = None if arm.start is None else by_name[arm.start.arm]
        digests[arm.name] = arm_digest(arm, source.described["digest"], None if first is None else digests[first.name])
        for seed in seeds:
            folder = record_folder(results, study, arm.name, digests[arm.name], seed)
            before = None
            if first is not None:
                weights = record_folder(results, study, first.name, digests[first.name], seed)
                before = Predecessor(first.name, weights, first.train.steps)
            members.append(Member(arm, seed, digests[arm.name], folder, source, before))
    return members


def _depth(arm: Arm, by_name: Mapping[str, Arm]) -> int:
    """How many arms have to be trained before it."""
    return 0 if arm.start is None else 1 + _depth(by_name[arm.start.arm], by_name)


def _groups(study: str, members: Sequence[Member], unfinished: Sequence[Unfinished]) -> list[RunGroup]:
    """The unfinished groups with what is left to record of them, and the other members by structure, in an order in which no
    one waits for another.

    Raises:
        UserError: where the held-out data do not suffice.
    """
    by_id = {member.id: member for member in members}
    by_name = {member.arm.name: member.arm for member in members}
    waiting = {member.id: member for member in members if not member.recorded}
    groups: list[tuple[int, RunGroup]] = []
    for saved in unfinished:
        together = [by_id[name] for name in saved.members if name in by_id]
        if any(member.id in waiting for member in together):
            groups.append((_depth(together[0].arm, by_name), run_group(study, together, saved)))
            for member in together:
                waiting.pop(member.id, None)
    fresh: dict[Any, list[Member]] = {}
    for member in waiting.values():
        depth = _depth(member.arm, by_name)
        fresh.setdefault((depth, structure(member.arm, member.source.vocabulary)), []).append(member)
    groups += [(depth, run_group(study, together)) for (depth, _), together in fresh.items()]
    return [group for _, group in sorted(groups, key=lambda pair: pair[0])]


def _check(groups: Sequence[RunGroup]) -> None:
    """UserError, before anything is trained, where memory or data do not suffice for a group."""
    for group in groups:
        check_memory(group)
        for member in group.members:
            member.source.inputs(member.seed, 0, group.structure.train.batch)
            check_data(member.source, member.arm)


def _check_predecessors(members: Sequence[Member]) -> None:
    """UserError, before anything is trained, where an arm is recorded and the weights to start from are gone."""
    for before in dict.fromkeys(member.predecessor for member in members):
        if before is None or not is_recorded(before.folder) or read_record(before.folder).status == "diverged":
            continue
        step, _ = checkpoint.latest(before.checkpoints)
        if step != before.steps:
            raise UserError(
                f"{before.checkpoints}: the weights of step {before.steps}, from which others start, are not there; delete "
                f"{before.folder} to train {before.arm!r} again"
            )


def _startable(group: RunGroup, progress: Progress) -> RunGroup | None:
    """The group without the members whose first weights were lost to divergence; None if nothing is left."""
    kept = []
    for member in group.members:
        before = member.predecessor
        if before is not None and read_record(before.folder).status == "diverged":
            progress.note(f"{group.study}: {member.arm.name}, seed {member.seed}: not trained, because {before.arm} diverged")
        else:
            kept.append(member)
    if len(kept) == len(group.members):
        return group
    return run_group(group.study, kept, group.unfinished) if kept else None


def check_starts(arms: Sequence[Arm]) -> None:
    """Checks that only what is a value differs between an arm and the one that it starts from.

    Raises:
        UserError: naming the two arms and what else differs.
    """
    by_name = {arm.name: arm for arm in arms}
    for arm in arms:
        if arm.start is None:
            continue
        ours, theirs = _compiled_in(arm), _compiled_in(by_name[arm.start.arm])
        differing = sorted(name for name in ours if ours[name] != theirs[name])
        if differing:
            raise UserError(
                f"arm {arm.name!r} starts from {arm.start.arm!r}, which has another {', '.join(differing)}: an arm goes on "
                "with the weights of one of its own structure"
            )


def _compiled_in(arm: Arm) -> dict[str, Any]:
    """The structure of an arm's model, field by field, and its sink, whose logits are among the weights."""
    model = decoder_config(arm.model, vocabulary_size(arm.data), arm.data.length)
    flat = {name: value for name, value in vars(model).items() if name != "block"}
    return flat | vars(model.block) | {"sink": arm.model.sink}
