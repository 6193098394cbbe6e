"""Computes and records the exact bound of every head dim and length; nothing is trained, and there is no spread."""

import math
import time
from pathlib import Path

import numpy as np

from experiments.config.base import Frozen
from experiments.config.study import RopeBaseStudy
from experiments.identity import Origin, arm_hash
from experiments.interrupt import Interrupted, Interruption
from experiments.progress import Progress
from experiments.record import RECORD, Measurement, read_arrays, read_record, record_folder, write_record
from experiments.studies import men_table_4
from experiments.studies.bound import report_of, searched, start
from experiments.studies.exact import Found, exact_record
from experiments.studies.rope_base import MEN_TABLE_4, arm_name
from model.positions.base_bound import FeasibleBases


class LengthArm(Frozen):
    """What decides the numbers of one row."""

    name: str
    head_dim: int
    length: int
    inclusive: bool
    every: int


class TableArm(Frozen):
    """The row of a published table, which has nothing to choose."""

    name: str
    head_dim: int


def arms_of(study: RopeBaseStudy) -> list[LengthArm | TableArm]:
    """The arms of a study, by head dim and then by length, each of which goes on where the one before it ended; and Men
    et al.'s Table 4 with its head dim."""
    inclusive, every = study.inclusive, study.every
    lengths: list[LengthArm | TableArm] = [
        LengthArm(
            name=arm_name(head_dim, length, inclusive=inclusive, every=every),
            head_dim=head_dim,
            length=length,
            inclusive=inclusive,
            every=every,
        )
        for head_dim in dict.fromkeys(study.head_dims)
        for length in sorted(set(study.lengths))
    ]
    tables = [TableArm(name=MEN_TABLE_4, head_dim=men_table_4.HEAD_DIM)] if men_table_4.HEAD_DIM in study.head_dims else []
    return [*lengths, *tables]


def run_rope_base(
    study: RopeBaseStudy, results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records the bound of each head dim and length that has no record yet, and Men et al.'s Table 4.

    Returns the hash of each arm and how many were found. Interrupted is raised when asked to stop, between two blocks
    of distances: what is recorded is kept, and the next run goes on from the longest length that is.
    """
    hashes, found = {}, 0
    bases: FeasibleBases | None = None
    for arm in arms_of(study):
        code = arm_hash(study.study, arm, None)
        hashes[study.study, arm.name] = code
        folder = record_folder(results, study.study, arm.name, code, 0)
        recorded = (folder / RECORD).exists()
        found += recorded
        match arm:
            case LengthArm():
                if bases is None or bases.head_dim != arm.head_dim:
                    bases = start(arm.head_dim, arm.length, arm.every)
                if recorded:
                    bases = _recorded(arm, folder)
                else:
                    bases = _search(study.study, arm, code, folder, bases, origin, progress, interruption)
            case TableArm() if not recorded:
                _record_table(study.study, arm, code, folder, origin)
    return hashes, found


def _recorded(arm: LengthArm, folder: Path) -> FeasibleBases:
    """The feasible bases that a record holds, to go on from."""
    record = read_record(folder)
    ray = record.measurements["largest_infeasible"].value
    if ray is None:
        raise ValueError(f"{folder}: head dim {arm.head_dim} has no feasible base on record")
    islands = np.log(read_arrays(folder)["islands"])
    intervals = (*((float(low), float(high)) for low, high in islands), (math.log(ray), math.inf))
    return FeasibleBases(arm.head_dim, arm.every, arm.length + arm.inclusive, intervals)


def _search(
    study: str,
    arm: LengthArm,
    code: str,
    folder: Path,
    bases: FeasibleBases,
    origin: Origin,
    progress: Progress,
    interruption: Interruption,
) -> FeasibleBases:
    began = time.monotonic()
    progress.start(f"{study}: {arm.name}, distances below", arm.length, min(bases.length, arm.length))
    for further in searched(bases, arm.length + arm.inclusive):
        bases = further
        progress.reach(min(bases.length, arm.length), f"{len(bases.intervals) - 1} islands")
        if interruption.requested:
            raise Interrupted(f"{study}: stopped within {arm.name}; the lengths before it are kept")
    report = report_of(bases, arm.length, inclusive=arm.inclusive)
    islands = np.array(report["islands"], np.float64).reshape(-1, 2)
    measurements = {
        "infimum": Measurement(value=report["infimum"], unit="base"),
        "largest_infeasible": Measurement(value=report["largest_infeasible"], unit="base"),
        "islands": Measurement(value=len(islands), unit="count"),
    }
    seconds = time.monotonic() - began  # beyond the length before it
    found = Found(measurements, {"name": "none", "published": report["published"]}, {"islands": islands})
    write_record(folder, exact_record(study, arm.name, arm, code, found, seconds, origin), [], found.arrays)
    return bases


def _record_table(study: str, arm: TableArm, code: str, folder: Path, origin: Origin) -> None:
    began = time.monotonic()
    counts = men_table_4.counts()
    measurements = {name: Measurement(value=number, unit="count") for name, (number, _) in counts.items()}
    firsts = {name: first for name, (_, first) in counts.items()}
    found = Found(measurements, {"name": "none", "first_violation": firsts})
    write_record(folder, exact_record(study, arm.name, arm, code, found, time.monotonic() - began, origin), [], {})
