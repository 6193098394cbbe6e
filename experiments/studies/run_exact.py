"""Studies that train nothing: each part that has no record yet is computed."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from leadline.experiments.config.study import Study
from leadline.experiments.measure.exact.job import Computed, Job
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.records.left_out import left_out_of
from leadline.experiments.records.measurement import Point, measurements_of
from leadline.experiments.records.provenance import Provenance, arm_digest, now
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.store import read_records, record_folder, write_record
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.runtime.worker import CLAIMS
from leadline.experiments.training.reporting import report_record

EXACT_SEED = 0  # of the folder of what is computed: nothing is drawn
EXACT = f"{CLAIMS}/exact"  # in the folder of a study: what a process claims before it computes


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
