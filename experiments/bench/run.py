"""Chooses benchmarks by name, runs them and keeps their outcomes."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.experiments.bench.cases import (
    attention,
    decode,
    evaluation,
    loop,
    mechanisms,
    parts,
    published,
    records,
    startup,
    step,
    sweep,
    tokenization,
)
from leadline.experiments.bench.contest import Benchmark, Where, contest
from leadline.experiments.bench.outcome import Outcome, outcome
from leadline.experiments.bench.page import page
from leadline.experiments.config.base import nearest
from leadline.experiments.records.json_file import write_whole
from leadline.experiments.runtime.errors import UserError

OUTCOMES, PAGE = "bench.json", "bench.md"
Tell = Callable[[str], None]
# Where cases that are not for a kind of machine run.
OTHER: Mapping[Where, str] = {"cpu": "an accelerator", "accelerator": "a CPU"}


def benchmarks() -> tuple[Benchmark, ...]:
    """All benchmarks, in the order in which they run."""
    return (
        step.TRAINING,
        parts.PARTS,
        attention.ATTENTION,
        attention.KERNEL_TILES,
        mechanisms.MECHANISMS,
        sweep.SWEEP,
        evaluation.EVALUATION,
        attention.SINKS,
        decode.DECODING,
        published.PUBLISHED,
        tokenization.TOKENIZATION,
        step.COMPILATION,
        startup.STARTUP,
        records.RECORDS,
        step.PIPELINE,
        loop.LOOP,
    )


def chosen(names: Sequence[str], cases: Sequence[str], about: Mapping[str, Any]) -> list[Benchmark]:
    """The benchmarks of these names, all of them for no name, with the cases that are for this machine.

    Args:
        names: of benchmarks.
        cases: parts of the titles of cases, of which a title has at least one; none leaves all.
        about: the surroundings of the run.

    Raises:
        UserError: for an unknown name, and where no case is left.
    """
    known = {benchmark.name: benchmark for benchmark in benchmarks()}
    here: Where = "accelerator" if about["machine"]["accelerator"] else "cpu"
    for name in names:
        if name not in known:
            raise UserError(f"{name!r} is no benchmark{nearest(name, list(known))}")
    named = [known[name] for name in dict.fromkeys(names)] or list(known.values())
    of_machine = {b.name: [case for case in b.cases if case.where in (None, here)] for b in named}
    left = {
        name: tuple(case for case in some if not cases or any(part in case.title for part in cases))
        for name, some in of_machine.items()
    }
    if not any(of_machine.values()):
        raise UserError(f"{', '.join(left)}: has cases for {OTHER[here]} alone")
    if not any(left.values()):
        titles = "; ".join(case.title for some in of_machine.values() for case in some)
        raise UserError(f"--case {' '.join(cases)}: no title has that; the cases of this machine are: {titles}")
    return [replace(b, cases=left[b.name]) for b in named if left[b.name]]


def measured(
    benchmark: Benchmark,
    rounds: int,
    about: dict[str, Any],
    variables: Mapping[str, str],
    tell: Tell,
    show: Callable[[Outcome], None],
) -> dict[str, Any]:
    """Runs the cases of a benchmark, one after the other.

    Args:
        benchmark: what is measured.
        rounds: of each case.
        about: the surroundings of the run.
        variables: of the environment of the contestants.
        tell: hears what is going on.
        show: gets the outcome of each case.

    Returns:
        The outcome of the benchmark, as it is kept.

    Raises:
        ContestError: as `contest`.
    """
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        for case in benchmark.cases:
            timed, ceiling = contest(case, rounds, tell, Path(folder), variables)
            outcomes.append(outcome(case, timed, ceiling, about["machine"]))
            show(outcomes[-1])
    head = {"benchmark": benchmark.name, "question": benchmark.question, "notes": list(benchmark.notes), "rounds": rounds}
    return head | about | {"cases": outcomes}


def keep(folder: Path, content: dict[str, Any]) -> None:
    """Writes the last outcome of each benchmark on each kind of machine to one file, by name, and the page of them.

    Raises:
        UserError: if the folder cannot be written, or its file holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = [other for other in _kept(folder / OUTCOMES) if _identity(other) != _identity(content)]
        outcomes = sorted([*kept, content], key=_identity)
        text = page(outcomes)
        lines = ",\n".join(json.dumps(benchmark, allow_nan=False) for benchmark in outcomes)
        write_whole(folder / OUTCOMES, f'{{"benchmarks": [\n{lines}\n]}}\n'.encode())
        write_whole(folder / PAGE, text.encode())
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder / OUTCOMES}: these are no outcomes of benchmarks; remove it, or choose another folder"
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{folder}: cannot be written ({reason}); choose another folder with --results") from error


def _identity(content: Mapping[str, Any]) -> tuple[str, str, str]:
    """The benchmark, the accelerator, and what is hidden of the machine."""
    return content["benchmark"], content["machine"]["accelerator"] or "", content["machine"].get("without", "")


def _kept(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_bytes())["benchmarks"] if path.exists() else []
