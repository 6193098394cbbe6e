"""Runs studies: the one place that knows which code answers which configuration."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.arms import run_arms
from experiments.config import Arm, ExtrapolationStudy, RopeBaseStudy, SinksStudy
from experiments.identity import provenance
from experiments.interrupt import Interruption
from experiments.load import arms_of, load_studies
from experiments.progress import Progress
from experiments.publish.page import Published
from experiments.studies.extrapolation_measure import ExtrapolationMeasurer
from experiments.studies.publish import publish_all
from experiments.studies.rope_base_run import run_rope_base
from experiments.studies.sinks_measure import SinksMeasurer

Study = SinksStudy | ExtrapolationStudy | RopeBaseStudy


@dataclass(frozen=True)
class Ran:
    """What a run came to, and the page that shows it."""

    published: Published
    programs: tuple[str, ...]
    seconds: float
    trained: int
    found: int

    def as_json(self, results: Path) -> dict[str, Any]:
        return {
            "results": str(results),
            "page": str(self.published.page),
            "seconds": round(self.seconds, 3),
            "programs": len(self.programs),
            "trained": self.trained,
            "found": self.found,
            "studies": self.published.summary,
            "claims": [asdict(verdict) for verdict in self.published.verdicts],
        }


def planned(config: Path, words: Sequence[str]) -> list[tuple[Study, list[Arm]]]:
    """Every study of a configuration with its arms, checked before anything runs."""
    studies = load_studies(config, words)
    return [(study, [] if isinstance(study, RopeBaseStudy) else arms_of(study, config)) for study in studies]


def run(plan: Sequence[tuple[Study, Sequence[Arm]]], results: Path, progress: Progress) -> Ran:
    """Runs what has no record yet and publishes what is recorded. Interrupted when asked to stop."""
    began = time.monotonic()
    hashes: dict[tuple[str, str], str] = {}
    programs: list[str] = []
    origin = provenance()
    trained, found = 0, 0
    with Interruption() as interruption:
        for study, arms in plan:
            match study:
                case RopeBaseStudy():
                    own, already = run_rope_base(study, results, origin)
                    hashes |= own
                    found += already
                    continue
                case SinksStudy():
                    measurer = SinksMeasurer()
                case ExtrapolationStudy():
                    measurer = ExtrapolationMeasurer()
            outcome = run_arms(study.study, arms, study.seeds, results, measurer, progress, interruption, origin)
            hashes |= outcome.hashes
            programs += outcome.programs
            trained += outcome.trained
            found += outcome.found
    return Ran(publish_all(results, hashes), tuple(programs), time.monotonic() - began, trained, found)
