"""A study's arms × seeds, grouped into compiled programs, trained, measured and recorded; what is recorded is not run again."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import checkpoint
from experiments.build import decoder_config, training_flops
from experiments.config.data import BackcopyData, Data
from experiments.config.measure import ExtrapolationMeasure
from experiments.config.study import Arm
from experiments.data.source import open_source, vocabulary_size
from experiments.errors import UserError
from experiments.group import Group, Measurer, Member, Point, Recorded, Source
from experiments.identity import Origin, arm_hash, now
from experiments.interrupt import Interruption
from experiments.loop import Trained, train_group
from experiments.measure.layers import ARRAYS, UNITS, as_number
from experiments.population import population_mesh
from experiments.progress import Progress
from experiments.record import RECORD, Measurement, Record, read_record, record_folder, write_record
from model.decoder import DecoderConfig


@dataclass(frozen=True)
class Outcome:
    """What a run of a study came to."""

    hashes: dict[tuple[str, str], str]  # (study, arm) -> hash of its configuration
    programs: tuple[str, ...]  # compiled in this run
    trained: int  # arms × seeds
    found: int  # already recorded


def run_arms(
    study: str,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    results: Path,
    measurer: Measurer,
    progress: Progress,
    interruption: Interruption,
    origin: Origin,
) -> Outcome:
    """Trains what `results` has no record of. Members whose structure and step agree share their programs.

    An arm that starts from another one comes behind it, with the weights of that one's last checkpoint.
    """
    data_sets = dict.fromkeys(arm.data for arm in arms)
    sources = {data: open_source(data, results / ".cache", progress.encoded) for data in data_sets}
    by_name, hashes, members = {arm.name: arm for arm in arms}, {}, []
    for arm in sorted(arms, key=lambda arm: _depth(arm, by_name)):
        before = None if arm.start is None else hashes[study, arm.start.arm]
        hashes[study, arm.name] = arm_hash(study, arm, sources[arm.data].described["digest"], before)
    for arm, seed in itertools.product(sorted(arms, key=lambda arm: _depth(arm, by_name)), seeds):
        folder = record_folder(results, study, arm.name, hashes[study, arm.name], seed)
        if not (folder / RECORD).exists():
            own = _member(arm, sources[arm.data], seed, hashes[study, arm.name], folder, progress)
            if arm.start is not None:
                first = by_name[arm.start.arm]
                there = record_folder(results, study, first.name, hashes[study, first.name], seed)
                own = replace(own, before=Recorded(first.name, there, first.train.steps))
            members.append(own)
    _check_checkpoints(members)
    programs: list[str] = []
    missed = 0
    for planned in _groups(study, members, measurer, by_name):
        group = _startable(planned, measurer, progress)
        missed += len(planned.members) - (len(group.members) if group else 0)
        if group is not None:
            _train_and_record(group, measurer, programs, progress, interruption, origin)
    return Outcome(hashes, tuple(programs), len(members) - missed, len(arms) * len(seeds) - len(members))


def _train_and_record(
    group: Group,
    measurer: Measurer,
    programs: list[str],
    progress: Progress,
    interruption: Interruption,
    origin: Origin,
) -> None:
    with jax.set_mesh(group.mesh):
        began = time.monotonic()
        trained = train_group(group, measurer, programs, progress, interruption)
        final = measurer.final([m.arm for m in group.members], [t.params for t in trained], group.source, group.model, programs)
        for member, end, beyond in zip(group.members, trained, final, strict=True):
            _record(group, member, end, beyond, origin)
        _tell(group, progress, time.monotonic() - began)


def _depth(arm: Arm, by_name: Mapping[str, Arm]) -> int:
    """How many arms have to be trained before it."""
    return 0 if arm.start is None else 1 + _depth(by_name[arm.start.arm], by_name)


def _member(arm: Arm, source: Source, seed: int, code: str, folder: Path, progress: Progress) -> Member:
    step, notes = checkpoint.latest(folder / "checkpoint")
    for note in notes:
        progress.note(note)
    return Member(arm, source, seed, code, folder, step or 0)


def check_starts(arms: Sequence[Arm]) -> None:
    """UserError where an arm starts from weights that it has no use for: only what is a value may differ."""
    by_name = {arm.name: arm for arm in arms}
    for arm in arms:
        if arm.start is None:
            continue
        own, first = (_compiled_in(one) for one in (arm, by_name[arm.start.arm]))
        differing = sorted(name for name in own if own[name] != first[name])
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


def _check_checkpoints(members: Sequence[Member]) -> None:
    """UserError, before anything is trained, where an arm is recorded and the weights to start from are gone."""
    for before in dict.fromkeys(member.before for member in members):
        if before is None or not (before.folder / RECORD).exists() or read_record(before.folder).status == "diverged":
            continue
        step, _ = checkpoint.latest(before.checkpoints)
        if step != before.steps:
            raise UserError(
                f"{before.checkpoints}: the weights of step {before.steps}, from which others start, are not there; remove "
                f"{before.folder} to train {before.arm!r} again"
            )


def _startable(group: Group, measurer: Measurer, progress: Progress) -> Group | None:
    """The group without the members whose first weights were lost to divergence; None if nothing is left."""
    lost = {m for m in group.members if m.before is not None and read_record(m.before.folder).status == "diverged"}
    for member in group.members:
        if member in lost and member.before is not None:
            progress.note(
                f"{group.study}: {member.arm.name}, seed {member.seed}: not trained, because {member.before.arm} diverged"
            )
    if not lost:
        return group
    kept = tuple(member for member in group.members if member not in lost)
    return _group(group.study, kept, group.model, measurer) if kept else None


def structure(arm: Arm, vocabulary: int) -> tuple[Any, ...]:
    """All of an arm that is compiled in. Arms that agree in it differ in values only: tables, logits, rates, decay, clip."""
    train = arm.train
    moments = (train.optimizer, train.beta1, train.beta2, train.epsilon)
    compiled_in = (train.steps, train.batch, moments, train.diverged, train.checkpoint_every)
    measure = arm.measure
    if isinstance(measure, ExtrapolationMeasure):  # the tables of an extension are values
        measure = measure.model_copy(update={"extensions": ()})
    return decoder_config(arm.model, vocabulary, arm.data.length), _drawn_alike(arm.data), compiled_in, measure


def _drawn_alike(data: Data) -> Data:
    """The data without what their inputs decide, not the program."""
    return data.model_copy(update={"bos": "fixed"}) if isinstance(data, BackcopyData) else data


def _groups(study: str, members: Sequence[Member], measurer: Measurer, by_name: Mapping[str, Arm]) -> list[Group]:
    """Members of one structure that stand at the same step together, in an order in which no one waits for another.

    UserError where the data do not suffice for a group, before any of them is trained.
    """
    found: dict[Any, list[Member]] = {}
    for member in members:
        own = structure(member.arm, member.source.vocabulary)
        found.setdefault((own, member.start, _depth(member.arm, by_name)), []).append(member)
    groups = []
    for (key, _, _), group in found.items():
        for member in group:
            member.source.inputs(member.seed, 0, member.arm.train.batch)
        groups.append(_group(study, tuple(group), key[0], measurer))
    return groups


def _group(study: str, members: tuple[Member, ...], model: DecoderConfig, measurer: Measurer) -> Group:
    arm = members[0].arm
    sources = tuple({id(member.source): member.source for member in members}.values())
    batches = [measurer.batches(source, arm.measure) for source in sources]
    held_out = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *batches)
    mesh = population_mesh(len(members), arm.train.batch, jax.tree.leaves(held_out)[0].shape[2], arm.model.width)
    return Group(study, members, sources, model, held_out, mesh)


def _record(group: Group, member: Member, end: Trained, beyond: Point, origin: Origin) -> None:
    arm = member.arm
    point = end.point | beyond
    if end.message:  # how long the others of its program went on says nothing of it
        point = {name: np.full_like(found, np.nan) for name, found in point.items()}
    tokens = end.steps * arm.train.batch * arm.data.length
    record = Record(
        study=group.study,
        arm=arm.name,
        arm_hash=member.hash,
        seed=member.seed,
        status="diverged" if end.message else "finished",
        message=end.message,
        config=arm.model_dump(mode="json"),
        data=member.source.described,
        steps=end.steps,
        tokens=tokens,
        seconds=end.seconds / len(group.members),  # its share of the time that the whole program took
        flops=tokens * training_flops(group.model, arm.data.length, arm.model.window, arm.model.kept),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(end.params)),
        measurements={
            name: Measurement(value=as_number(name, found), unit=unit(name))
            for name, found in point.items()
            if name.split(".")[0] not in ARRAYS
        },
        created=now(),
        **origin,
    )
    write_record(member.folder, record, end.curve, {name: found for name, found in point.items() if np.ndim(found)})


def unit(name: str) -> str:
    """Of a measurement, whose name may go on with a number of positions, an extension, a length."""
    return UNITS[name] if name in UNITS else UNITS[name.split(".")[0].rstrip("0123456789")]


def _tell(group: Group, progress: Progress, seconds: float) -> None:
    names = ", ".join(dict.fromkeys(member.arm.name for member in group.members))
    devices = group.mesh.shape["arm"]
    progress.note(f"{group.study}: {names}: {len(group.members)} models on {devices} devices in {seconds:.0f} s")
