"""Runs studies: what has no record yet is trained or computed, then everything that is recorded is published."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leadline.experiments.config.load import arms_of, load_studies
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.publish.report import Published, compiled, report
from leadline.experiments.publish.table import plain
from leadline.experiments.records.provenance import provenance
from leadline.experiments.records.store import read_records, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.lock import locked
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.studies.run_exact import run_exact
from leadline.experiments.training.plan import check_starts, run_arms

Plan = Sequence[tuple[Study, Sequence[Arm]]]


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
    plan: list[tuple[Study, list[Arm]]] = []
    for study in load_studies(config, words):
        arms = [] if study.exact is not None else arms_of(study, config)
        check_starts(arms)
        plan.append((study, arms))
    return plan


def run(plan: Plan, results: Path, progress: Progress, show: Callable[[str], None]) -> Ran:
    """Runs what has no record yet, or a damaged one, and publishes what is recorded. What is left out is said.

    Args:
        plan: studies and their arms, as `planned` gives them.
        results: the folder of the records, which is made where there is none.
        progress: hears of every step.
        show: gets the first table of each study as text, once the study has been run.

    Raises:
        UserError: before anything is trained, if the folder cannot be written.
        Interrupted: when asked to stop; what is recorded is kept.
    """
    began = time.monotonic()
    _check_folder(results)
    digests: dict[tuple[str, str], str] = {}
    programs: list[str] = []
    origin = provenance()
    trained, recorded = 0, 0
    damaged = [line for study, _ in plan for line in read_records(results, study.study)[1]]
    for line in damaged:
        progress.note(line)
    with Interruption(progress.note) as interruption:
        for study, arms in plan:
            write_study(results, study)
            if study.exact is not None:
                with locked(results / study.study):
                    computed, already = run_exact(study, results, origin, progress, interruption)
                digests |= computed
                recorded += already
            else:
                outcome = run_arms(study.study, arms, study.seeds, results, progress, interruption, origin)
                digests |= outcome.digests
                programs += outcome.programs
                trained += outcome.trained
                recorded += outcome.recorded
            sections = {section.study: section for section in compiled(results, digests, drawn=()).sections}
            show(plain(sections[study.study].tables[0]))
    published = report(results, digests)
    for line in published.notes:
        if line not in damaged:
            progress.note(line)
    return Ran(published, tuple(programs), time.monotonic() - began, trained, recorded)


def _check_folder(results: Path) -> None:
    """UserError where the folder, or the nearest folder above it that there is, cannot be written."""
    nearest = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        reason = "cannot be written" if nearest.is_dir() else "is no folder"
        raise UserError(f"{results}: cannot write results ({nearest} {reason}); choose another folder with --results")
