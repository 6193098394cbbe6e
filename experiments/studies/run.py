"""Runs studies: what has no record yet is trained or computed, then everything that is recorded is published."""

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from leadline.experiments.config.load import arms_of, load_studies, together
from leadline.experiments.config.study import Arm, Study
from leadline.experiments.data.source import with_vocabulary
from leadline.experiments.executors.base import Executor
from leadline.experiments.executors.local import Local
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.publish.contents import first_table
from leadline.experiments.publish.report import Report, report
from leadline.experiments.publish.table import plain
from leadline.experiments.records.over_seeds import current
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import read_records, read_studies, write_study
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.runtime.worker import CLAIMS
from leadline.experiments.studies.decide import looks
from leadline.experiments.studies.names import check_names
from leadline.experiments.studies.run_exact import EXACT, run_exact
from leadline.experiments.training.plan import check_starts, run_arms
from leadline.experiments.training.reporting import flops_expected
from leadline.experiments.training.session import Session, opened

Plan = Sequence[tuple[Study, Sequence[Arm]]]
# What a process claims before it writes what all runs share: the page, and the descriptions of studies.
PAGE = f"{CLAIMS}/page"


@dataclass(frozen=True)
class Ran:
    """What a run came to, and the page that shows it."""

    published: Report
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
    together(check_names, plan)
    return plan


def _arms(study: Study, path: Path) -> list[Arm]:
    """The arms of a study, each with the size of its vocabulary."""
    arms = arms_of(study, path)
    sized = {data: with_vocabulary(data) for data in dict.fromkeys(arm.data for arm in arms)}
    return [arm.model_copy(update={"data": sized[arm.data]}) for arm in arms]


@dataclass
class _Tally:
    """What a run has come to so far."""

    digests: dict[tuple[str, str], str] = field(default_factory=dict)
    trained: int = 0
    recorded: int = 0


def run(
    plan: Plan,
    results: Path,
    progress: Progress,
    show: Callable[[str], None],
    command: str = "",
    *,
    decide: bool = False,
    executor: Executor | None = None,
) -> Ran:
    """Runs what has no record yet, or a damaged one, and publishes what is recorded. What is left out is said.

    Other runs may be at work in the same folder, on any host: each takes what no other has begun, and waits at the end for the
    others.

    Args:
        plan: studies and their arms, as `planned` gives them.
        results: the folder of the records, which is made where there is none.
        progress: hears of every step.
        show: gets the first table of each study as text, once the study has been run.
        command: that was given, for the log.
        decide: whether seeds are added where claims are undecided, up to the `most_seeds` of each study.
        executor: trains the groups; None: this process does.

    Raises:
        UserError: before anything is trained, if the folder cannot be written, or holds a damaged description of a study.
        Interrupted: when asked to stop; what is recorded is kept.
    """
    began = time.monotonic()
    _check_folder(results)
    progress.log(command or "a run begins")
    tally, trainer = _Tally(), executor or Local()
    with (
        Interruption(progress.note) as interruption,
        opened(results, progress, interruption, trainer.expiry, trainer.room) as session,
    ):
        damaged = _begin(plan, session)
        studies = [(study.study, _turns(study, arms, session, trainer, tally, decide=decide)) for study, arms in plan]
        while studies:
            waiting = []
            for name, turns in studies:
                if next(turns, None) is not None:
                    waiting.append((name, turns))
                    continue
                show(plain(first_table(results, name, tally.digests)))
            studies = waiting
            tally.trained += trainer.wait(session) if studies else 0
        with session.worker.alone(results / PAGE, interruption):
            published = report(results, tally.digests)
    for line in published.notes:
        if line not in damaged:
            progress.note(line)
    ran = Ran(published, tuple(session.programs), time.monotonic() - began, tally.trained, tally.recorded)
    counts = f"{ran.trained} models trained, {ran.recorded} on record before, {len(ran.programs)} programs"
    progress.log(f"{counts}, {ran.seconds:.0f} s")
    return ran


def _turns(
    study: Study, arms: Sequence[Arm], session: Session, executor: Executor, tally: _Tally, *, decide: bool
) -> Iterator[str]:
    """Runs a study. Yields its name whenever all that is left of it waits for others."""
    results, worker, progress = session.results, session.worker, session.progress
    progress.pace.expect(study.study, ())
    with worker.alone(results / PAGE, session.interruption):
        write_study(results, study)
    if study.exact is not None:
        while (claim := worker.claim([results / study.study / EXACT])) is None:
            yield study.study
        with claim:
            digests, already = run_exact(study, results, session.origin, progress, session.interruption)
        tally.digests |= digests
        tally.recorded += already
        return
    more = looks(study, arms, partial(_current, results, study, tally.digests), progress.note) if decide else ()
    for number, (chosen, seeds) in enumerate(itertools.chain([(arms, study.seeds)], more)):
        outcome = run_arms(study.study, chosen, seeds, session, executor.train)
        tally.digests |= outcome.digests
        tally.recorded += outcome.recorded if number == 0 else 0
        tally.trained += outcome.trained
        while outcome.waiting:
            yield study.study
            outcome = run_arms(study.study, chosen, seeds, session, executor.train)
            tally.trained += outcome.trained


def _begin(plan: Plan, session: Session) -> list[str]:
    """Removes what dead processes left, and says what there will be to train, as far as that is known before corpora are read.

    Returns:
        The notes on records that are left out.

    Raises:
        UserError: where the page could not be made in the end, for the description of a study that is not run now.
    """
    results, origin, progress = session.results, session.origin, session.progress
    session.worker.tidy()
    read_studies(results, but=[study.study for study, _ in plan])
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
