"""Runs of toy arms, watched and broken off."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from leadline.experiments.config.data import BackcopyData
from leadline.experiments.config.measure import Measure, SinkRate
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.study import Arm
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import read_records
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.training.claimed import train_claimed
from leadline.experiments.training.plan import run_arms
from leadline.experiments.training.session import opened
from tests.experiments.synthetic_records import bits

STEPS, BATCH, LENGTH = 6, 3, 16
SOFTMAX = Arm(
    name="softmax",
    label="Softmax",
    model=ModelConfig(layers=1, width=8, heads=2, hidden=8, feedforward="relu", position=Rope(base=100.0)),
    data=BackcopyData(vocabulary=8, triggers=2, length=LENGTH),
    train=TrainConfig(steps=STEPS, batch=BATCH, learning_rate=1e-2, warmup=2),
    measure=Measure(every=3, windows=6, sink=SinkRate(length=LENGTH)),
)


def changed(name: str, arm: Arm = SOFTMAX, **sections: dict[str, Any]) -> Arm:
    """The arm under another name, with other settings in some sections."""
    new = {section: getattr(arm, section).model_copy(update=settings) for section, settings in sections.items()}
    return arm.model_copy(update={"name": name, **new})


class Ran(NamedTuple):
    """What a run came to."""

    digests: dict[tuple[str, str], str]
    programs: tuple[str, ...]
    trained: int
    recorded: int


class PowerCut(Exception):  # noqa: N818  # it is no error of ours
    """The process is gone."""


class Watched(Progress):
    """Asks to stop, or fails, once a step or a status is told."""

    def __init__(self, stop_at: int | None = None, fail_at: int | str | None = None, group: int = 1) -> None:
        super().__init__(Console(quiet=True))
        self.interruption = Interruption()
        self._stop_at, self._fail_at, self._group = stop_at, fail_at, group
        self.titles: list[str] = []
        self.steps: list[int] = []
        self.notes: list[str] = []

    def start(self, work: Work) -> None:
        super().start(work)
        self.titles.append(work.title)

    def step(self, done: int, losses: np.ndarray, diverged: Sequence[bool]) -> None:  # noqa: ARG002
        self.steps.append(done)
        if done == self._stop_at and len(self.titles) == self._group:
            self.interruption.requested = True
        self._fail(done)

    def status(self, status: str) -> None:
        self._fail(status)

    def _fail(self, moment: int | str) -> None:
        if moment == self._fail_at and len(self.titles) == self._group:
            raise PowerCut

    def note(self, line: str) -> None:
        self.notes.append(line)


def run(results: Path, arms: Sequence[Arm], seeds: Sequence[int] = (0, 1), progress: Watched | None = None) -> Ran:
    watched = progress or Watched()
    with opened(results, watched, watched.interruption) as session:
        outcome = run_arms("sinks", arms, seeds, session, train_claimed)
    return Ran(outcome.digests, tuple(session.programs), outcome.trained, outcome.recorded)


def stored_in(results: Path) -> dict[tuple[str, int], StoredRecord]:
    """The records of a folder, none of which is left out, by arm and seed."""
    records, notes = read_records(results)
    assert notes == []
    return {(stored.record.arm, stored.record.seed): stored for stored in records}


def kept(results: Path) -> dict[tuple[str, int], Any]:
    """Everything that the records say, except when, where and for how long: the record, its curve, its arrays to the bit."""
    without = {"seconds", "created", "workers", "commit", "dirty", "sum"}
    return {
        key: (stored.record.model_dump(exclude=without), bits(stored.curve().values), bits(stored.arrays()))
        for key, stored in stored_in(results).items()
    }
