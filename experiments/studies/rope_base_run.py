"""Computes and records the exact bound of every length; nothing is trained, and there is no spread."""

import time
from pathlib import Path

import numpy as np

from experiments.config import Frozen, RopeBaseStudy
from experiments.identity import Origin, arm_hash, now
from experiments.record import RECORD, Measurement, Record, record_folder, write_record
from experiments.studies.bound import bound_report


class LengthArm(Frozen):
    """What decides the numbers of one row."""

    name: str
    head_dim: int
    length: int


def run_rope_base(study: RopeBaseStudy, results: Path, origin: Origin) -> tuple[dict[tuple[str, str], str], int]:
    """Records the bound of each length that has no record yet. Returns the hash of each arm and how many were found."""
    hashes, found = {}, 0
    for length in study.lengths:
        arm = LengthArm(name=length_name(length), head_dim=study.head_dim, length=length)
        code = arm_hash(study.study, arm, None)
        hashes[study.study, arm.name] = code
        folder = record_folder(results, study.study, arm.name, code, 0)
        if (folder / RECORD).exists():
            found += 1
        else:
            _record(study.study, arm, code, folder, origin)
    return hashes, found


def _record(study: str, arm: LengthArm, code: str, folder: Path, origin: Origin) -> None:
    began = time.monotonic()
    report = bound_report(arm.head_dim, arm.length)
    islands = np.array(report["islands"], np.float64).reshape(-1, 2)
    record = Record(
        study=study,
        arm=arm.name,
        arm_hash=code,
        seed=0,
        status="finished",
        config=arm.model_dump(),
        data={"name": "none", "published": report["published"]},
        steps=0,
        tokens=0,
        seconds=time.monotonic() - began,
        flops=0,
        parameters=0,
        measurements={
            "infimum": Measurement(value=report["infimum"], unit="base"),
            "largest_infeasible": Measurement(value=report["largest_infeasible"], unit="base"),
            "islands": Measurement(value=len(islands), unit="count"),
        },
        created=now(),
        **origin,
    )
    write_record(folder, record, [], {"islands": islands})


def length_name(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)
