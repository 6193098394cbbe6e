"""Contests: contestants do the same work, each in a process of its own, in alternating rounds.

Rounds alternate so that a drift of the machine meets every contestant.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leadline.experiments.bench.worker import SCRATCH, Prepared

# The machines that a case is run on.
Where = Literal["cpu", "accelerator"]
# The facts of a prepared contestant, and a function that runs one round and returns the seconds of the work.
Running = tuple[Mapping[str, Any], Callable[[], float]]


@dataclass(frozen=True)
class Contestant:
    """One way to do the work of a case."""

    name: str  # in the table
    entry: str  # "module:function" that prepares it and returns a `leadline.experiments.bench.worker.Prepared`
    settings: Mapping[str, Any] = field(default_factory=dict)  # arguments of that function: JSON types and data classes
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that its process gets in addition


def ours(prepare: Callable[..., Prepared], settings: Mapping[str, Any], name: str = "leadline") -> Contestant:
    """A contestant of this repository. Its process calls `prepare` with the settings."""
    return Contestant(name, f"{prepare.__module__}:{prepare.__name__}", settings)


def peer(name: str, entry: str, settings: Mapping[str, Any], **environment: str) -> Contestant:
    """A contestant from another library. `entry` is "module:function" in `leadline.experiments.bench.peers`."""
    return Contestant(name, f"leadline.experiments.bench.peers.{entry}", settings, environment)


@dataclass(frozen=True)
class Case:
    """The same work for all contestants."""

    title: str  # what is done
    contestants: tuple[Contestant, ...]  # leadline, then its peers
    # The smallest ratio of a peer's time to leadline's that is aimed at, by the peer's name.
    targets: Mapping[str, float] = field(default_factory=dict)
    flops: float = 0.0  # matmul FLOPs of the work; 0 where the rate is not reported
    ceiling: Contestant | None = None  # the contestant that measures the FLOP/s of this machine's own matrix product
    share: float | None = None  # the part of that ceiling that is aimed at
    utilisation: float | None = None  # the part of the accelerator's published peak that is aimed at
    tokens: int = 0  # in the work; 0 where the rate is not reported
    rate: float | None = None  # tokens a second that are aimed at
    seconds: float | None = None  # the longest time of leadline that is aimed at
    tolerance: float = 1e-4  # the largest relative difference of the values that contestants report, checked before timing
    where: Where | None = None  # the machines that it is run on; None is all


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


@contextmanager
def _process(contestant: Contestant, scratch: Path, variables: Mapping[str, str]) -> Iterator[Running]:
    """The worker process of a contestant, prepared and idle between rounds. The end of its input ends it.

    It has `variables` in its environment, no cache of compiled programs, and JAX does not preallocate an accelerator's memory.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    common = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", SCRATCH: str(scratch), **variables}
    environment = {**inherited, **common, **contestant.environment}
    settings = json.dumps(contestant.settings, default=vars)
    command = [sys.executable, "-m", "leadline.experiments.bench.worker", contestant.entry, settings]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
        subprocess.Popen(command, text=True, env=environment, stdin=pipe, stdout=pipe, stderr=stderr) as process,
    ):
        stdin: Any = process.stdin

        def answer(request: str) -> Mapping[str, Any]:
            with suppress(BrokenPipeError):  # it has died, and its last words are read below
                stdin.write(request)
                stdin.flush()
            if line := process.stdout.readline():  # pyright: ignore[reportOptionalMemberAccess]
                return json.loads(line)
            with suppress(BrokenPipeError):  # what it did not read is written once more, and lost
                stdin.close()
            process.wait()
            stderr.seek(0)
            last = stderr.read().strip().splitlines() or [f"exit code {process.returncode}"]
            raise ContestError(f"{contestant.name} died: {last[-1]}")

        yield answer(""), lambda: float(answer("go\n")["seconds"])


def contest(
    case: Case, rounds: int, tell: Callable[[str], None], scratch: Path, variables: Mapping[str, str]
) -> tuple[list[Timed], Timed | None]:
    """Runs a case.

    Args:
        case: what is measured.
        rounds: in each of which every contestant has its turn.
        tell: hears what is going on.
        scratch: a folder that contestants share.
        variables: of the environment of every contestant, in addition to those of this process.

    Returns:
        The times of every contestant, in the order of the case, and those of the ceiling. A contestant whose package is not
        installed has no rounds, and the fact "absent".

    Raises:
        ContestError: if a contestant dies, or the values that they report before timing differ.
    """
    running: dict[str, Running] = {}
    with ExitStack() as stack:
        for contestant in (*case.contestants, *([case.ceiling] if case.ceiling else [])):
            tell(f"{case.title}: preparing {contestant.name}")
            running[contestant.name] = stack.enter_context(_process(contestant, scratch, variables))
        _check_values(case, running)
        seconds: dict[str, list[float]] = {name: [] for name in running}
        for number in range(rounds):
            for name, (facts, run_round) in running.items():
                if "absent" not in facts:
                    tell(f"{case.title}: round {number + 1} of {rounds}, {name}")
                    seconds[name].append(run_round())
    timed = [Timed(name, tuple(seconds[name]), facts) for name, (facts, _) in running.items()]
    return timed[: len(case.contestants)], timed[-1] if case.ceiling else None


def _check_values(case: Case, running: Mapping[str, Running]) -> None:
    values = {name: facts["value"] for name, (facts, _) in running.items() if "value" in facts}
    for name, value in values.items():
        first_name, first = next(iter(values.items()))
        if not abs(value - first) <= case.tolerance * abs(first):  # also of NaN
            raise ContestError(f"{case.title}: {first_name} has {first:.9g} and {name} {value:.9g}: not the same work")
