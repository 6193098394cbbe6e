"""Contestants side by side: each in a process of its own, in alternated rounds, so that a drift of the machine meets all."""

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

from experiments.bench.worker import SCRATCH

ROUNDS = 5
# What a case is for.
Where = Literal["cpu", "accelerator"]


@dataclass(frozen=True)
class Contestant:
    """One way to do the work of a case.

    Attributes:
        name: what the table prints.
        entry: "module:function" of what prepares it (experiments.bench.worker).
        settings: its arguments, as JSON takes them.
        environment: variables that its process gets besides those that are set.
    """

    name: str
    entry: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """The same work for all contestants, of which the first is ours.

    Attributes:
        title: what is done.
        contestants: ours, then the peers.
        targets: by a peer's name, how many times as long as we it should take at least.
        flops: matmul FLOPs of the work; 0 where it is not measured by them.
        ceiling: what measures the FLOP/s of this machine's own matrix product.
        share: of that ceiling, what is aimed at.
        utilisation: of what the manufacturer of the accelerator publishes, what is aimed at.
        tokens: in the work, where it is measured in tokens a second.
        rate: of those, what is aimed at.
        seconds: what ours should take at most.
        tolerance: by how much the values that contestants report may differ relatively; they are checked before timing.
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
    """Its name on the command line, what it asks, its cases, and what a reader has to know of the figures."""

    name: str
    question: str
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timed:
    """What a contestant took: seconds of the work in each round (none where it is absent), and what it says of itself."""

    name: str
    rounds: tuple[float, ...]
    facts: Mapping[str, Any]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


class ContestError(Exception):
    """A contestant ended by itself, or contestants did not do the same work."""


class _Process:
    """A worker: it has prepared itself, and waits between rounds without running."""

    def __init__(self, contestant: Contestant, scratch: str) -> None:
        command = [sys.executable, "-m", "experiments.bench.worker", contestant.entry, json.dumps(dict(contestant.settings))]
        self.name = contestant.name
        self._complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            text=True,
            env=_environment(contestant, scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        self.facts: Mapping[str, Any] = self._answer()

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def round(self) -> float:
        """Seconds of the work."""
        self._process.stdin.write("go\n")  # pyright: ignore[reportOptionalMemberAccess]
        self._process.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
        return float(self._answer()["seconds"])

    def _answer(self) -> Mapping[str, Any]:
        line = self._process.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
        if line:
            return json.loads(line)
        self._process.wait()
        self._complaints.seek(0)
        last = self._complaints.read().strip().splitlines()[-1:]
        self._end()
        raise ContestError(f"{self.name} ended by itself: {last[0] if last else f'exit code {self._process.returncode}'}")

    def _end(self) -> None:
        """The end of its input ends it."""
        self._process.communicate("")
        self._complaints.close()


def _environment(contestant: Contestant, scratch: str) -> dict[str, str]:
    """Programs are compiled, not found; and no contestant takes an accelerator's memory before it needs it."""
    own = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return {**own, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", SCRATCH: scratch, **contestant.environment}


def contest(
    case: Case, rounds: int, tell: Callable[[str], None], scratch: Path | None = None
) -> tuple[list[Timed], Timed | None]:
    """Times of every contestant, in the order of the case, and of the ceiling.

    A contestant that needs a package that is not here has no rounds, and says so in its facts ("absent"). `scratch` is a folder
    that contestants may share; without one each contest makes its own. Raises ContestError where a contestant dies, or where
    the values that they report before timing differ: then they do not do the same work.
    """
    everyone = [*case.contestants, *([case.ceiling] if case.ceiling else [])]
    with ExitStack() as stack:
        shared = scratch or stack.enter_context(tempfile.TemporaryDirectory(prefix="leadline-bench-"))
        processes = []
        for contestant in everyone:
            tell(f"{case.title}: {contestant.name} prepares itself")
            processes.append(stack.enter_context(_Process(contestant, str(shared))))
        _check_values(case, processes)
        present = [process for process in processes if "absent" not in process.facts]
        found: dict[str, list[float]] = {process.name: [] for process in processes}
        for number in range(rounds):
            for process in present:
                tell(f"{case.title}: round {number + 1} of {rounds}, {process.name}")
                found[process.name].append(process.round())
        timed = [Timed(process.name, tuple(found[process.name]), process.facts) for process in processes]
    return timed[: len(case.contestants)], timed[-1] if case.ceiling else None


def _check_values(case: Case, processes: Sequence[_Process]) -> None:
    values = {process.name: process.facts["value"] for process in processes if "value" in process.facts}
    for name, value in values.items():
        first_name, first = next(iter(values.items()))
        if not abs(value - first) <= case.tolerance * abs(first):  # also of NaN
            raise ContestError(f"{case.title}: {first_name} finds {first:.9g} and {name} {value:.9g}: not the same work")
