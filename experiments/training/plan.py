"""A study's arms × seeds, in groups that share compiled programs: what has no record yet is handed to whoever trains."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.experiments.config.study import Arm
from leadline.experiments.data.source import CACHE, open_source, structure_of
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.records.packed import PACKED
from leadline.experiments.records.provenance import arm_digest
from leadline.experiments.records.store import packed_runs, read_record, record_folder
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, RunGroup, Unfinished, run_group, structure
from leadline.experiments.training.memory import Room, check_memory, fitting_groups
from leadline.experiments.training.reporting import flops_left
from leadline.experiments.training.saving import remove_recorded, unfinished_groups
from leadline.experiments.training.session import Session


@dataclass(frozen=True)
class Outcome:
    """What a run of a study came to."""

    digests: dict[tuple[str, str], str]  # of each arm, by (study, arm)
    trained: int  # models, here
    recorded: int  # models that were on record before
    waiting: tuple[RunGroup, ...]  # groups that are not recorded yet, because others train them or what they start from


# (group, its part of the study, session) -> number of models recorded; it may hand the group to another process.
Train = Callable[[RunGroup, str, Session], int]


def run_arms(study: str, arms: Sequence[Arm], seeds: Sequence[int], session: Session, train: Train) -> Outcome:
    """Has every group trained that has no record yet. Members of equal structure share their programs.

    An arm that starts from another one comes after it, with the weights of that one's last checkpoint. A run that was killed
    or stopped goes on with the groups that it had. A group that another process is at work on is left to it.

    Raises:
        UserError: before anything is trained, if data, memory or weights to start from do not suffice; later, if the disk
            refuses.
        Interrupted: when asked to stop, with everything kept.
    """
    progress = session.progress
    remove_recorded(session.results / study, session.worker)
    cache = session.results / CACHE
    members, groups = grouped(study, arms, seeds, session.results, cache, progress, session.room)
    waiting = [member for member in members if not member.recorded]
    session.board.plan(study, groups)
    trained, left = 0, []
    for number, planned in enumerate(groups, start=1):
        progress.pace.expect(study, [flops_left(later) for later in groups[number:]])
        if not all(before.recorded for member in planned.members if (before := member.predecessor) is not None):
            left.append(planned)
            continue
        group = _startable(planned, progress)
        if group is not None:
            trained += train(group, f"group {number} of {len(groups)}", session)
            left += [] if all(member.recorded for member in group.members) else [group]
    digests = {(study, member.arm.name): member.digest for member in members}
    return Outcome(digests, trained, len(members) - len(waiting), tuple(left))


def grouped(
    study: str,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    results: Path,
    cache: Path,
    progress: Progress,
    room: Room,
) -> tuple[list[Member], list[RunGroup]]:
    """Every arm and seed of a study, and the groups in which those without a record will train.

    Args:
        study: its name.
        arms: of the study, each with the one that it starts from.
        seeds: of every arm.
        results: the folder of the records.
        cache: the folder of tokens and tokenizers.
        progress: hears of corpora that are encoded.
        room: for a new group.

    Raises:
        UserError: if data, memory or weights to start from do not suffice.
    """
    members = members_of(study, arms, seeds, results, cache, progress)
    waiting = {member.id: member for member in members if not member.recorded}
    groups = _groups(study, members, dict(waiting), unfinished_groups(results / study, progress.note), room)
    _check(waiting, groups, room)
    return members, groups


def members_of(
    study: str,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    results: Path,
    cache: Path,
    progress: Progress,
) -> list[Member]:
    """Every arm and seed, each arm after the one that it starts from. Arguments are those of `grouped`."""
    sources = {data: open_source(data, cache, progress.encoded) for data in dict.fromkeys(arm.data for arm in arms)}
    by_name = {arm.name: arm for arm in arms}
    packed = packed_runs(results, study)

    @functools.cache
    def member(name: str, seed: int) -> Member:
        arm = by_name[name]
        before = None if arm.start is None else member(arm.start.arm, seed)
        source = sources[arm.data]
        digest = arm_digest(arm, source.described["digest"], None if before is None else before.digest)
        folder = record_folder(results, study, name, digest, seed)
        return Member(arm, seed, digest, folder, source, before, (name, digest, seed) in packed)

    return sorted((member(name, seed) for name in by_name for seed in seeds), key=lambda member: member.depth)


def _groups(
    study: str,
    members: Sequence[Member],
    waiting: dict[str, Member],
    unfinished: Sequence[Unfinished],
    room: Room,
) -> list[RunGroup]:
    """The unfinished groups with what is left to record of them, and the other members by structure, in an order in which no
    one waits for another.

    Raises:
        UserError: where memory or the held-out data do not suffice.
    """
    by_id = {member.id: member for member in members}
    groups = []
    for saved in unfinished:
        together = [by_id[name] for name in saved.extra["members"] if name in by_id]
        if any(member.id in waiting for member in together):
            groups.append(run_group(study, together, saved))
            for member in together:
                waiting.pop(member.id, None)
    fresh: dict[Any, list[Member]] = {}
    for member in waiting.values():
        fresh.setdefault((member.depth, structure(member.arm)), []).append(member)
    for together in fresh.values():
        groups += fitting_groups(study, together, room)
    return sorted(groups, key=lambda group: group.members[0].depth)


def _check(waiting: Mapping[str, Member], groups: Sequence[RunGroup], room: Room) -> None:
    """UserError, before anything is trained, where memory or data do not suffice for a group, or where an arm is recorded and
    the weights to start from are gone."""
    for before in dict.fromkeys(member.predecessor for member in waiting.values()):
        if before is not None and before.packed:
            raise UserError(
                f"{before.folder.parents[1] / PACKED}: the record of {before.arm.name!r}, seed {before.seed}, has no weights "
                "from which others start; run the study with --results in a folder without packed records"
            )
        if before is None or not before.recorded or read_record(before.folder).status == "diverged":
            continue
        step, steps = checkpoint.latest(before.checkpoints)[0], before.arm.train.steps
        if step != steps:
            raise UserError(
                f"{before.checkpoints}: the weights of step {steps}, from which others start, are not there; delete "
                f"{before.folder} to train {before.arm.name!r} again"
            )
    for group in groups:
        check_memory(group, room)
        for member in group.members:
            member.source.inputs(member.seed, 0, group.structure.train.batch)
    for member in {member.arm.name: member for group in groups for member in group.members}.values():  # of any seed
        check_data(member.source, member.arm)


def _startable(group: RunGroup, progress: Progress) -> RunGroup | None:
    """The group without the members whose first weights were lost to divergence; None if nothing is left."""
    kept = []
    for member in group.members:
        before, name = member.predecessor, f"{group.study}: {member.arm.name}, seed {member.seed}"
        if before is not None and read_record(before.folder).status == "diverged":
            progress.note(f"{name}: not trained, because {before.arm.name} diverged")
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

    def compiled_in(arm: Arm) -> dict[str, Any]:
        """The structure of an arm's model, field by field, and its sink, whose logits are among the weights."""
        model = structure_of(arm)
        flat = {name: value for name, value in vars(model).items() if name != "block"}
        return flat | vars(model.block) | {"sink": arm.model.sink}

    by_name = {arm.name: arm for arm in arms}
    for arm in arms:
        if arm.start is None:
            continue
        ours, theirs = compiled_in(arm), compiled_in(by_name[arm.start.arm])
        differing = sorted(name for name in ours if ours[name] != theirs[name])
        if differing:
            raise UserError(
                f"arm {arm.name!r} starts from {arm.start.arm!r}, which has another {', '.join(differing)}: an arm goes on "
                "with the weights of one of its own structure"
            )
