"""Trackers hear of curves and final measurements while studies run. They are never the truth, and never stop a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, runtime_checkable

import numpy as np

# How long the end of a command waits for a tracker that is still writing or sending.
CLOSE_SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """One arm and seed, as trackers show it."""

    study: str
    arm: str
    digest: str  # of all that decides the numbers
    seed: int
    config: Callable[[], Mapping[str, Any]]  # gives the settings; asked for once

    @property
    def name(self) -> str:
        """`STUDY/ARM-DIGEST/sSEED`, as in the results folder."""
        return f"{self.study}/{self.arm}-{self.digest}/s{self.seed}"


@runtime_checkable
class TrackedRun(Protocol):
    """A run in a tracker."""

    shown_by: str  # how a reader sees the runs of this tracker

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Adds a point: numbers by name."""
        ...

    def finish(self, values: Mapping[str, float], *, whole: bool) -> None:
        """Adds the final measurements and ends the run; `whole` says whether it has come to its end."""
        ...


Tracker = Callable[[Run], TrackedRun]


class Tracking:
    """Feeds one tracker from a thread of its own, so that a slow network or disk delays no step.

    Whatever its library raises is said once, and the tracker hears no more.

    Args:
        name: of the tracker.
        begin: opens a run in it.
        tell: gets a line where the runs can be seen, and one when the tracker fails.
    """

    def __init__(self, name: str, begin: Tracker, tell: Callable[[str], None]) -> None:
        self._name, self._begin, self._tell, self._told = name, begin, tell, False
        self._runs: dict[str, tuple[TrackedRun, int]] = {}  # those that are open, with the last step that they have
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def curve(self, run: Run, steps: Sequence[int] | np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        """Adds the points of a curve that are new, all of them to a run that goes on from a checkpoint.

        Args:
            run: whose.
            steps: [P], increasing.
            values: by name, [P].
        """
        self._waiting.put(partial(self._extend, run, steps, values))

    def final(self, run: Run, values: Mapping[str, float]) -> None:
        """Adds the final measurements of a run and ends it."""
        self._waiting.put(partial(self._finish, run, values))

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Ends the runs that are open, and waits until all is written or the time is over."""
        self._waiting.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._tell(f"--tracker {self._name}: not done after {seconds:.0f} s; what it has not written or sent is lost")

    def _work(self) -> None:
        try:
            while (call := self._waiting.get()) is not None:
                call()
            for tracked, _ in self._runs.values():
                tracked.finish({}, whole=False)
        except Exception as error:  # of any library: training goes on
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            self._tell(f"--tracker {self._name}: {reason}; training goes on without it")

    def _extend(self, run: Run, steps: Sequence[int] | np.ndarray, values: Mapping[str, np.ndarray]) -> None:
        tracked, last = self._open(run)
        for i, step in enumerate(map(int, steps)):
            if step > last:
                numbers = {name: float(column[i]) for name, column in values.items()}
                tracked.log(step, {name: number for name, number in numbers.items() if np.isfinite(number)})
                self._runs[run.name] = tracked, step

    def _finish(self, run: Run, values: Mapping[str, float]) -> None:
        tracked, _ = self._open(run)
        tracked.finish(values, whole=True)
        del self._runs[run.name]

    def _open(self, run: Run) -> tuple[TrackedRun, int]:
        if run.name not in self._runs:
            tracked = self._begin(run)
            self._runs[run.name] = tracked, -1
            if not self._told:
                self._told = True
                self._tell(f"--tracker {self._name}: {tracked.shown_by}")
        return self._runs[run.name]
