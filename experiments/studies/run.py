"""Runs studies: the one place that knows which code answers which configuration."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.arms import check_starts, run_arms
from experiments.config.study import (
    AnatomyStudy,
    Arm,
    BackcopyStudy,
    BaseLengthStudy,
    ExactStudy,
    ExtrapolationStudy,
    MultilingualStudy,
    PrecisionStudy,
    RetrievalStudy,
    RopeBaseStudy,
    SinksStudy,
    StreamingStudy,
    TokensStudy,
    TrainingStudy,
    VocabularyStudy,
)
from experiments.errors import UserError
from experiments.group import Measurer
from experiments.identity import Origin, provenance
from experiments.interrupt import Interruption
from experiments.load import arms_of, load_studies
from experiments.progress import Progress
from experiments.publish.page import Published
from experiments.record import read_records
from experiments.studies.anatomy_measure import AnatomyMeasurer
from experiments.studies.base_length_measure import BaseLengthMeasurer
from experiments.studies.extrapolation_measure import ExtrapolationMeasurer
from experiments.studies.multilingual import run_multilingual
from experiments.studies.precision import run_precision
from experiments.studies.publish import publish_all
from experiments.studies.retrieval_measure import RetrievalMeasurer
from experiments.studies.rope_base_run import run_rope_base
from experiments.studies.sinks_measure import BackcopyMeasurer, SinksMeasurer
from experiments.studies.streaming_measure import StreamingMeasurer
from experiments.studies.tokens import run_tokens
from experiments.studies.vocabulary_measure import VocabularyMeasurer

Study = TrainingStudy | ExactStudy


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
    plan: list[tuple[Study, list[Arm]]] = []
    for study in load_studies(config, words):
        arms = [] if isinstance(study, ExactStudy) else arms_of(study, config)
        check_starts(arms)
        plan.append((study, arms))
    return plan


def run(plan: Sequence[tuple[Study, Sequence[Arm]]], results: Path, progress: Progress) -> Ran:
    """Runs what has no record yet and publishes what is recorded. Interrupted when asked to stop.

    UserError before anything is trained if the results folder cannot be written or holds what cannot be read.
    """
    began = time.monotonic()
    _check_folder(results)
    read_records(results)
    hashes: dict[tuple[str, str], str] = {}
    programs: list[str] = []
    origin = provenance()
    trained, found = 0, 0
    with Interruption() as interruption:
        for study, arms in plan:
            if isinstance(study, ExactStudy):
                own, already = _exact(study, results, origin, progress, interruption)
                hashes |= own
                found += already
                continue
            outcome = run_arms(study.study, arms, study.seeds, results, _measurer(study), progress, interruption, origin)
            hashes |= outcome.hashes
            programs += outcome.programs
            trained += outcome.trained
            found += outcome.found
    return Ran(publish_all(results, hashes), tuple(programs), time.monotonic() - began, trained, found)


def _exact(
    study: ExactStudy, results: Path, origin: Origin, progress: Progress, interruption: Interruption
) -> tuple[dict[tuple[str, str], str], int]:
    """Records what needs no training; the hash of each arm, and how many were found."""
    match study:
        case RopeBaseStudy():
            return run_rope_base(study, results, origin, progress, interruption)
        case PrecisionStudy():
            return run_precision(study, results, origin, progress, interruption)
        case TokensStudy():
            return run_tokens(study, results, origin, progress, interruption)
        case MultilingualStudy():
            return run_multilingual(study, results, origin, progress, interruption)


def _measurer(study: TrainingStudy) -> Measurer:
    match study:
        case BackcopyStudy():
            return BackcopyMeasurer()
        case SinksStudy():
            return SinksMeasurer()
        case AnatomyStudy():
            return AnatomyMeasurer()
        case ExtrapolationStudy():
            return ExtrapolationMeasurer()
        case RetrievalStudy():
            return RetrievalMeasurer()
        case BaseLengthStudy():
            return BaseLengthMeasurer()
        case StreamingStudy():
            return StreamingMeasurer()
        case VocabularyStudy():
            return VocabularyMeasurer()


def _check_folder(results: Path) -> None:
    """UserError where the folder, or the nearest folder above it that there is, cannot be written."""
    nearest = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        reason = "cannot be written" if nearest.is_dir() else "is no folder"
        raise UserError(f"{results}: cannot write results ({nearest} {reason}); choose another folder with --results")
