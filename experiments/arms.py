"""A study's arms × seeds, grouped into compiled programs, trained, measured and recorded; what is recorded is not run again."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments import checkpoint
from experiments.build import decoder_config, training_flops
from experiments.config import Arm
from experiments.data.source import open_source
from experiments.identity import Origin, arm_hash, now
from experiments.interrupt import Interruption
from experiments.loop import Group, Measurer, Member, Point, Source, Trained, train_group
from experiments.measure.layers import UNITS, as_number
from experiments.population import population_mesh
from experiments.progress import Progress
from experiments.record import RECORD, Measurement, Record, record_folder, write_record


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
    """Trains what `results` has no record of. Members whose structure and step agree share their programs."""
    sources = {data: open_source(data, results / ".cache") for data in dict.fromkeys(arm.data for arm in arms)}
    members, hashes = [], {}
    for arm, seed in itertools.product(arms, seeds):
        code = arm_hash(study, arm, sources[arm.data].described["digest"])
        hashes[study, arm.name] = code
        folder = record_folder(results, study, arm.name, code, seed)
        if not (folder / RECORD).exists():
            members.append(_member(arm, seed, code, folder, progress))
    programs: list[str] = []
    for group in _groups(study, members, sources, measurer):
        with jax.set_mesh(group.mesh):
            began = time.monotonic()
            trained = train_group(group, measurer, programs, progress, interruption)
            final = measurer.final(
                [m.arm for m in group.members], [t.params for t in trained], group.source, group.model, programs
            )
            for member, end, beyond in zip(group.members, trained, final, strict=True):
                _record(group, member, end, beyond, origin)
            _tell(group, progress, time.monotonic() - began)
    return Outcome(hashes, tuple(programs), len(members), len(arms) * len(seeds) - len(members))


def _member(arm: Arm, seed: int, code: str, folder: Path, progress: Progress) -> Member:
    step, notes = checkpoint.latest(folder / "checkpoint")
    for note in notes:
        progress.note(note)
    return Member(arm, seed, code, folder, step or 0)


def structure(arm: Arm, vocabulary: int) -> tuple[Any, ...]:
    """All of an arm that is compiled in. Arms that agree in it differ in values only: tables, logits, rates, decay, clip."""
    train = arm.train
    compiled_in = (train.steps, train.batch, train.beta1, train.beta2, train.epsilon, train.diverged, train.checkpoint_every)
    return decoder_config(arm.model, vocabulary, arm.data.length), arm.data, compiled_in, arm.measure


def _groups(study: str, members: Sequence[Member], sources: dict[Any, Source], measurer: Measurer) -> list[Group]:
    """Members of one structure that stand at the same step together, in the order in which they came.

    UserError where the data do not suffice for a group, before any of them is trained.
    """
    found: dict[Any, list[Member]] = {}
    for member in members:
        key = (structure(member.arm, sources[member.arm.data].vocabulary), member.start)
        found.setdefault(key, []).append(member)
    groups = []
    for (key, _), group in found.items():
        arm, source = group[0].arm, sources[key[1]]
        source.inputs(group[0].seed, 0, arm.train.batch)
        batches = measurer.batches(source, arm.measure)
        mesh = population_mesh(len(group), arm.train.batch, jax.tree.leaves(batches)[0].shape[1], arm.model.width)
        groups.append(Group(study, tuple(group), source, key[0], batches, mesh))
    return groups


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
        data=group.source.described,
        steps=end.steps,
        tokens=tokens,
        seconds=end.seconds / len(group.members),  # its share of the time that the whole program took
        flops=tokens * training_flops(group.model, arm.data.length, arm.model.window),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(end.params)),
        measurements={name: Measurement(value=as_number(name, found), unit=unit(name)) for name, found in point.items()},
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
