"""Runs what is computed without training: one record an arm, without seeds and so without spread."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.config.base import Frozen
from experiments.identity import Origin, arm_hash, now
from experiments.interrupt import Interrupted, Interruption
from experiments.progress import Progress
from experiments.record import RECORD, Measurement, Record, record_folder, write_record


@dataclass(frozen=True)
class Found:
    """What was computed of one arm."""

    measurements: Mapping[str, Measurement]
    data: Mapping[str, object] = field(default_factory=lambda: {"name": "none"})
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One arm: its name, what decides its numbers (data by their digest), and how they are computed."""

    name: str
    config: Frozen
    compute: Callable[[], Found]
    digest: str | None = None


def run_exact(
    study: str, jobs: Sequence[Job], results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records each arm that has no record yet; the hash of each arm, and how many were found.

    Raises Interrupted when asked to stop, between two arms: what is recorded is kept.
    """
    hashes, found = {}, 0
    progress.start(study, len(jobs), 0)
    for done, job in enumerate(jobs):
        if interruption.requested:
            raise Interrupted(f"{study}: stopped before {job.name}; what is before it is kept")
        code = arm_hash(study, job.config, job.digest)
        hashes[study, job.name] = code
        folder = record_folder(results, study, job.name, code, 0)
        if (folder / RECORD).exists():
            found += 1
            continue
        progress.reach(done, job.name)
        began = time.monotonic()
        computed = job.compute()
        record = exact_record(study, job.name, job.config, code, computed, time.monotonic() - began, origin)
        write_record(folder, record, [], computed.arrays)
    return hashes, found


def exact_record(study: str, arm: str, config: Frozen, code: str, found: Found, seconds: float, origin: Origin) -> Record:
    """The record of an arm without training."""
    return Record(
        study=study,
        arm=arm,
        arm_hash=code,
        seed=0,
        status="finished",
        config=config.model_dump(mode="json"),
        data=found.data,  # pyright: ignore[reportArgumentType]  # validated
        steps=0,
        tokens=0,
        seconds=seconds,
        flops=0,
        parameters=0,
        measurements=dict(found.measurements),
        created=now(),
        **origin,
    )
