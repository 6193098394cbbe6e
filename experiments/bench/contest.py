"""Contests: contestants do the same work, each in a process of its own, in alternating rounds.

Rounds alternate so that a drift of the machine meets every contestant.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leadline.experiments.bench.worker import SCRATCH

ROUNDS = 5
# The machines that a case is run on.
Where = Literal["cpu", "accelerator"]


@dataclass(frozen=True)
class Contestant:
    """One way to do the work of a case.

    Attributes:
        name: in the table.
        entry: "module:function" that prepares it and returns a `leadline.experiments.bench.worker.Prepared`.
        settings: arguments of that function, as JSON types.
        environment: variables that its process gets in addition.
    """

    name: str
    entry: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def ours(entry: str, settings: Mapping[str, Any], name: str = "leadline") -> Contestant:
    """A contestant that runs leadline. `entry` is "module:function" in `leadline.experiments.bench.contestants.ours`."""
    return Contestant(name, f"leadline.experiments.bench.contestants.ours.{entry}", settings)


def peer(name: str, entry: str, settings: Mapping[str, Any], **environment: str) -> Contestant:
    """A contestant from another library. `entry` is "module:function" in `leadline.experiments.bench.contestants.peers`."""
    return Contestant(name, f"leadline.experiments.bench.contestants.peers.{entry}", settings, environment)


@dataclass(frozen=True)
class Case:
    """The same work for all contestants. The first is leadline.

    Attributes:
        title: what is done.
        contestants: leadline, then its peers.
        targets: the smallest ratio of a peer's time to leadline's that is aimed at, by the peer's name.
        flops: matmul FLOPs of the work; 0 where the rate is not reported.
        ceiling: the contestant that measures the FLOP/s of this machine's own matrix product.
        share: the part of that ceiling that is aimed at.
        utilisation: the part of the accelerator's published peak that is aimed at.
        tokens: in the work; 0 where the rate is not reported.
        rate: tokens a second that are aimed at.
        seconds: the longest time of leadline that is aimed at.
        tolerance: the largest relative difference of the values that contestants report. They are checked before timing.
        where: the machines that it is run on; None is all.
    """

    title: str
    contestants: tuple[Contestant, ...]
    targets: Mapping[str, float] = field(default_factory=dict)
    flops: float = 0.0
    ceiling: Contestant | None = None
    share: float | None = None
    utilisation: float | None = None
    tokens: int = 0
    rate: float | None = None
    seconds: float | None = None
    tolerance: float = 1e-4
    where: Where | None = None


@dataclass(frozen=True)
class Benchmark:
    """Cases that answer one question; `notes` say what a reader has to know of the figures."""

    name: str
    question: str
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timed:
    """The seconds of a contestant in each round (none where it is absent), and the facts that it reports."""

    name: str
    rounds: tuple[float, ...]
    facts: Mapping[str, Any]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


class ContestError(Exception):
    """A contestant died, or contestants did not do the same work."""


class _Process:
    """The worker process of a contestant. It is prepared when this returns, and idle between rounds."""

    def __init__(self, contestant: Contestant, scratch: str) -> None:
        self.name, settings = contestant.name, json.dumps(dict(contestant.settings))
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "leadline.experiments.bench.worker", contestant.entry, settings],
            text=True,
            env=_environment(contestant, scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self.facts: Mapping[str, Any] = self._answer()

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def round(self) -> float:
        """Runs one round, and returns the seconds of the work."""
        self._process.stdin.write("go\n")  # pyright: ignore[reportOptionalMemberAccess]
        self._process.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
        return float(self._answer()["seconds"])

    def _answer(self) -> Mapping[str, Any]:
        line = self._process.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
        if line:
            return json.loads(line)
        self._process.wait()
        self._stderr.seek(0)
        last = self._stderr.read().strip().splitlines()[-1:]
        self._end()
        raise ContestError(f"{self.name} died: {last[0] if last else f'exit code {self._process.returncode}'}")

    def _end(self) -> None:
        """Closes its input, which ends it."""
        self._process.communicate("")
        self._stderr.close()


def _environment(contestant: Contestant, scratch: str) -> dict[str, str]:
    """Without a cache of compiled programs, and without JAX's preallocation of an accelerator's memory."""
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return {**inherited, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", SCRATCH: scratch, **contestant.environment}


def contest(
    case: Case, rounds: int, tell: Callable[[str], None], scratch: Path | None = None
) -> tuple[list[Timed], Timed | None]:
    """Runs a case.

    Args:
        case: what is measured.
        rounds: in each of which every contestant has its turn.
        tell: hears what is going on.
        scratch: a folder that contestants share; None makes one for this contest.

    Returns:
        The times of every contestant, in the order of the case, and those of the ceiling. A contestant whose package is not
        installed has no rounds, and the fact "absent".

    Raises:
        ContestError: if a contestant dies, or the values that they report before timing differ.
    """
    everyone = [*case.contestants, *([case.ceiling] if case.ceiling else [])]
    with ExitStack() as stack:
        shared = scratch or stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-bench-"))
        processes = []
        for contestant in everyone:
            tell(f"{case.title}: preparing {contestant.name}")
            processes.append(stack.enter_context(_Process(contestant, str(shared))))
        _check_values(case, processes)
        present = [process for process in processes if "absent" not in process.facts]
        seconds: dict[str, list[float]] = {process.name: [] for process in processes}
        for number in range(rounds):
            for process in present:
                tell(f"{case.title}: round {number + 1} of {rounds}, {process.name}")
                seconds[process.name].append(process.round())
        timed = [Timed(process.name, tuple(seconds[process.name]), process.facts) for process in processes]
    return timed[: len(case.contestants)], timed[-1] if case.ceiling else None


def _check_values(case: Case, processes: Sequence[_Process]) -> None:
    values = {process.name: process.facts["value"] for process in processes if "value" in process.facts}
    for name, value in values.items():
        first_name, first = next(iter(values.items()))
        if not abs(value - first) <= case.tolerance * abs(first):  # also of NaN
            raise ContestError(f"{case.title}: {first_name} has {first:.9g} and {name} {value:.9g}: not the same work")
