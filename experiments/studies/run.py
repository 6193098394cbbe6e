"""Runs studies: what has no record yet is trained or computed, then everything that is recorded is published."""

import itertools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leadline.experiments.config.load import arms_of, load_studies, together
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.data.source import with_vocabulary
from leadline.experiments.measure.exact.job import Computed, Job
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.publish.contents import compiled
from leadline.experiments.publish.report import Published, report
from leadline.experiments.publish.table import plain
from leadline.experiments.records.left_out import left_out_of
from leadline.experiments.records.measurement import Point, measurements_of
from leadline.experiments.records.over_seeds import current
from leadline.experiments.records.provenance import Provenance, arm_digest, now, provenance
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.store import read_records, record_folder, write_record, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import locked
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.studies.decide import looks
from leadline.experiments.studies.names import check_quantities
from leadline.experiments.training.plan import check_starts, run_arms
from leadline.experiments.training.reporting import flops_expected, report_record

Plan = Sequence[tuple[Study, Sequence[Arm]]]
EXACT_SEED = 0  # of the folder of what is computed: nothing is drawn


@dataclass(frozen=True)
class Ran:
    """What a run came to, and the page that shows it."""

    published: Published
    programs: tuple[str, ...]
    seconds: float
    trained: int
    recorded: int  # found on record, and not run again

    def as_json(self, results: Path) -> dict[str, Any]:
        return {
            "results": str(results),
            "page": str(self.published.page),
            "seconds": round(self.seconds, 3),
            "programs": len(self.programs),
            "trained": self.trained,
            "recorded": self.recorded,
            "studies": self.published.summary,
            "claims": [asdict(verdict) for verdict in self.published.verdicts],
        }


def planned(config: Path, words: Sequence[str]) -> list[tuple[Study, list[Arm]]]:
    """Every study of a configuration with its arms, checked before anything runs.

    UserError for whatever the files or the words say that cannot be run.
    """
    studies = load_studies(config, words)
    arms = together(_arms, [(study, config) for study in studies if study.exact is None])
    together(check_starts, [(of_study,) for of_study in arms])
    trained = iter(arms)
    plan = [(study, [] if study.exact is not None else next(trained)) for study in studies]
    together(check_quantities, plan)
    return plan


def _arms(study: Study, path: Path) -> list[Arm]:
    """The arms of a study, each with the size of its vocabulary."""
    arms = arms_of(study, path)
    sized = {data: with_vocabulary(data) for data in dict.fromkeys(arm.data for arm in arms)}
    return [arm.model_copy(update={"data": sized[arm.data]}) for arm in arms]


def run(
    plan: Plan, results: Path, progress: Progress, show: Callable[[str], None], command: str = "", *, decide: bool = False
) -> Ran:
    """Runs what has no record yet, or a damaged one, and publishes what is recorded. What is left out is said.

    Args:
        plan: studies and their arms, as `planned` gives them.
        results: the folder of the records, which is made where there is none.
        progress: hears of every step.
        show: gets the first table of each study as text, once the study has been run.
        command: that was given, for the log.
        decide: whether seeds are added where claims are undecided, up to the `most_seeds` of each study.

    Raises:
        UserError: before anything is trained, if the folder cannot be written.
        Interrupted: when asked to stop; what is recorded is kept.
    """
    began = time.monotonic()
    _check_folder(results)
    progress.log(command or "a run begins")
    digests: dict[tuple[str, str], str] = {}
    programs: list[str] = []
    origin = provenance()
    trained, recorded = 0, 0
    damaged = _begin(plan, results, origin, progress)
    with Interruption(progress.note) as interruption:
        for study, arms in plan:
            progress.pace.expect(study.study, ())
            write_study(results, study)
            if study.exact is not None:
                with locked(results / study.study):
                    computed, already = run_exact(study, results, origin, progress, interruption)
                digests |= computed
                recorded += already
            else:
                more = looks(study, arms, partial(_current, results, study, digests), progress.note) if decide else ()
                for number, (chosen, seeds) in enumerate(itertools.chain([(arms, study.seeds)], more)):
                    outcome = run_arms(study.study, chosen, seeds, results, progress, interruption, origin)
                    digests |= outcome.digests
                    programs += outcome.programs
                    trained += outcome.trained
                    recorded += outcome.recorded if number == 0 else 0
            sections = {section.study: section for section in compiled(results, digests, drawn=()).sections}
            show(plain(sections[study.study].tables[0]))
    published = report(results, digests)
    for line in published.notes:
        if line not in damaged:
            progress.note(line)
    ran = Ran(published, tuple(programs), time.monotonic() - began, trained, recorded)
    progress.log(f"{trained} models trained, {recorded} on record before, {len(programs)} programs, {ran.seconds:.0f} s")
    return ran


def _begin(plan: Plan, results: Path, origin: Provenance, progress: Progress) -> list[str]:
    """Says what there will be to train, as far as it is known before corpora are read. The notes on records left out."""
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    studies = ", ".join(study.study for study, _ in plan)
    progress.log(f"{studies}: commit {origin['commit']}, {versions}, {origin['device']['count']} x {origin['device']['kind']}")
    notes = []
    for study, arms in plan:
        records, left_out = read_records(results, study.study)
        if study.exact is None:
            flops = flops_expected(arms, study.seeds, records)
        else:  # how long it takes is not known
            flops = [math.nan] * (len(records) < len(jobs_of(study.exact)))
        progress.pace.expect(study.study, flops)
        notes += left_out
    for line in notes:
        progress.note(line)
    return notes


def _current(results: Path, study: Study, digests: Mapping[tuple[str, str], str]) -> list[Record]:
    """The records of a study as it is now."""
    stored, _ = current(read_records(results, study.study)[0], digests)
    return [entry.record for entry in stored]


def _check_folder(results: Path) -> None:
    """UserError where the folder, or the nearest folder above it that there is, cannot be written."""
    nearest = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        reason = "cannot be written" if nearest.is_dir() else "is no folder"
        raise UserError(f"{results}: cannot write results ({nearest} {reason}); choose another folder with --results")


def run_exact(
    study: Study, results: Path, origin: Provenance, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Computes and records each arm that has no record yet.

    An arm that goes on from others reads their records, so that an interrupted run and an uninterrupted one agree.

    Args:
        study: with `exact`.
        results: the folder of the records.
        origin: the code and the machine.
        progress: hears of every arm.
        interruption: is asked between arms, and within long ones.

    Returns:
        The digest of each arm by (study, arm), and the number of arms that were on record.

    Raises:
        ValueError: for a study that trains.
        UserError: for data that cannot be read, or a folder that cannot be written.
        Interrupted: when asked to stop; the arms before are kept.
    """
    if study.exact is None:
        raise ValueError(f"{study.study} trains models; leadline.experiments.training.plan runs it")
    jobs = jobs_of(study.exact)
    records, _ = read_records(results, study.study)
    on_record = {(stored.record.arm, stored.record.arm_hash): stored for stored in records}
    digests = {job.name: arm_digest(job.settings, job.data_digest) for job in jobs}
    already = sum(item in on_record for item in digests.items())
    if already < len(jobs):
        progress.start(Work(study.study, len(jobs), already, unit="part"))
    done = already
    for job in jobs:
        if (job.name, digests[job.name]) in on_record:
            continue
        if interruption.requested:
            raise Interrupted(f"{study.study}: stopped before {job.name}; the arms before it are kept")

        def tell(step: int, steps: int, done: int = done, job: Job = job) -> None:
            progress.reach(done, f"{job.label}: {step:,} of {steps:,}")
            if interruption.requested and step < steps:
                raise Interrupted(f"{study.study}: stopped within {job.name}; the arms before it are kept")

        progress.reach(done, job.label)
        began = time.monotonic()
        points = {name: point_of(on_record[name, digests[name]]) for name in job.needs}
        computed = job.compute(points, tell)
        record = _record(study.study, job, digests[job.name], computed, time.monotonic() - began, origin)
        folder = record_folder(results, study.study, job.name, digests[job.name], EXACT_SEED)
        on_record[job.name, digests[job.name]] = write_record(folder, record, None, computed.point)
        report_record(on_record[job.name, digests[job.name]].record, progress)
        done += 1
    if already < len(jobs):
        progress.end(f"{len(jobs) - already} of {len(jobs)} parts computed")
    return {(study.study, name): digest for name, digest in digests.items()}, already


def point_of(stored: StoredRecord) -> Point:
    """The point that a record was written from, as far as it is kept: its numbers and its arrays."""
    numbers = {entry.reading: np.asarray(entry.value) for entry in stored.record.measurements if entry.value is not None}
    return numbers | stored.arrays()


def _record(study: str, job: Job, digest: str, computed: Computed, seconds: float, origin: Provenance) -> Record:
    data: Any = computed.data
    return Record(
        study=study,
        arm=job.name,
        label=job.label,
        arm_hash=digest,
        seed=EXACT_SEED,
        status="finished",
        config=job.settings.model_dump(mode="json"),
        data=data,
        steps=0,
        tokens=0,
        seconds=seconds,
        flops=0,
        parameters=computed.parameters,
        measurements=tuple(measurements_of(computed.point)),
        left_out=left_out_of(computed.point),
        created=now(),
        **origin,
    )
