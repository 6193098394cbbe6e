"""Benchmarks by name, run and kept."""

import difflib
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.bench import (
    attention,
    compilation,
    decode,
    evaluation,
    mechanisms,
    pipeline,
    sinks,
    startup,
    step,
    sweep,
    tokenization,
)
from experiments.bench.contest import Benchmark, contest
from experiments.bench.outcome import Outcome, outcome
from experiments.bench.page import PAGE, page
from experiments.data.encoding import replacing
from experiments.errors import UserError

Tell = Callable[[str], None]


def benchmarks() -> tuple[Benchmark, ...]:
    """All there are, in the order in which they run."""
    return tuple(
        one.benchmark()
        for one in (step, attention, mechanisms, sweep, evaluation, sinks, decode, tokenization, compilation, startup, pipeline)
    )


def chosen(names: Sequence[str]) -> list[Benchmark]:
    """Those of these names, all without a name. UserError for a name that none has."""
    known = {one.name: one for one in benchmarks()}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise UserError(f"{name!r} is no benchmark; {hint}")
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def measured(
    benchmark: Benchmark, rounds: int, about: dict[str, Any], tell: Tell, show: Callable[[Outcome], None]
) -> dict[str, Any]:
    """Runs its cases for this machine one after the other; `show` gets the outcome of each. Raises ContestError."""
    cases, here = [], "accelerator" if about["machine"]["accelerator"] else "cpu"
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        for case in (case for case in benchmark.cases if case.where in (None, here)):
            timed, ceiling = contest(case, rounds, tell, Path(folder))
            cases.append(outcome(case, timed, ceiling, about["machine"]))
            show(cases[-1])
    head = {"benchmark": benchmark.name, "question": benchmark.question, "notes": list(benchmark.notes), "rounds": rounds}
    return head | about | {"cases": cases}


def keep(folder: Path, content: dict[str, Any]) -> None:
    """Writes the outcome of a benchmark, and the page anew. UserError where the folder cannot be written."""
    try:
        _write(folder / f"{content['benchmark']}.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
        _write(folder / PAGE, page(folder))
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{folder}: cannot be written ({reason}); choose another folder with --results") from error


def _write(path: Path, text: str) -> None:
    with replacing(path, path.parent) as file:
        file.write(text.encode())
