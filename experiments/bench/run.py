"""Chooses benchmarks by name, runs them and keeps their outcomes."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.bench.cases import (
    attention,
    decode,
    evaluation,
    mechanisms,
    published,
    startup,
    step,
    sweep,
    tokenization,
)
from leadline.experiments.bench.contest import Benchmark, contest
from leadline.experiments.bench.outcome import Outcome, outcome
from leadline.experiments.bench.page import PAGE, page
from leadline.experiments.config.base import nearest
from leadline.experiments.records.json_file import write_whole
from leadline.experiments.runtime.errors import UserError

Tell = Callable[[str], None]


def benchmarks() -> tuple[Benchmark, ...]:
    """All benchmarks, in the order in which they run."""
    return (
        step.TRAINING,
        attention.ATTENTION,
        mechanisms.MECHANISMS,
        sweep.SWEEP,
        evaluation.EVALUATION,
        attention.SINKS,
        decode.DECODING,
        published.PUBLISHED,
        tokenization.TOKENIZATION,
        step.COMPILATION,
        startup.STARTUP,
        step.PIPELINE,
    )


def chosen(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of these names; all of them for no name.

    Raises:
        UserError: for an unknown name.
    """
    known = {benchmark.name: benchmark for benchmark in benchmarks()}
    for name in names:
        if name not in known:
            raise UserError(f"{name!r} is no benchmark{nearest(name, list(known))}")
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def measured(
    benchmark: Benchmark, rounds: int, about: dict[str, Any], tell: Tell, show: Callable[[Outcome], None]
) -> dict[str, Any]:
    """Runs the cases of a benchmark that are for this machine, one after the other.

    Args:
        benchmark: what is measured.
        rounds: of each case.
        about: the surroundings of the run.
        tell: hears what is going on.
        show: gets the outcome of each case.

    Returns:
        The outcome of the benchmark, as it is kept.

    Raises:
        ContestError: as `contest`.
    """
    outcomes, here = [], "accelerator" if about["machine"]["accelerator"] else "cpu"
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        for case in (case for case in benchmark.cases if case.where in (None, here)):
            timed, ceiling = contest(case, rounds, tell, Path(folder))
            outcomes.append(outcome(case, timed, ceiling, about["machine"]))
            show(outcomes[-1])
    head = {"benchmark": benchmark.name, "question": benchmark.question, "notes": list(benchmark.notes), "rounds": rounds}
    return head | about | {"cases": outcomes}


def keep(folder: Path, content: dict[str, Any]) -> None:
    """Writes the outcome of a benchmark, and the page of all outcomes in the folder.

    Raises:
        UserError: if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        outcome_file = folder / f"{content['benchmark']}.json"
        write_whole(outcome_file, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
        write_whole(folder / PAGE, page(folder).encode())
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{folder}: cannot be written ({reason}); choose another folder with --results") from error
