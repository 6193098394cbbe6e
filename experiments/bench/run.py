"""Chooses benchmarks by name, runs them and keeps their outcomes."""

import json
import tempfile
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from leadline.experiments.bench.cases import (
    attention,
    decode,
    evaluation,
    loop,
    mechanisms,
    published,
    records,
    startup,
    step,
    sweep,
    tokenization,
)
from leadline.experiments.bench.contest import Benchmark, contest
from leadline.experiments.bench.outcome import Outcome, outcome
from leadline.experiments.bench.page import page
from leadline.experiments.config.base import nearest
from leadline.experiments.records.json_file import write_whole
from leadline.experiments.runtime.errors import UserError

OUTCOMES, PAGE = "bench.json", "bench.md"
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
        records.RECORDS,
        step.PIPELINE,
        loop.LOOP,
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
    """Writes the last outcome of each benchmark to one file, by name, and the page of them.

    Raises:
        UserError: if the folder cannot be written, or its file holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = [*(other for other in _kept(folder / OUTCOMES) if other["benchmark"] != content["benchmark"]), content]
        outcomes.sort(key=itemgetter("benchmark"))
        text = page(outcomes)
        write_whole(folder / OUTCOMES, (json.dumps({"benchmarks": outcomes}, indent=1, allow_nan=False) + "\n").encode())
        write_whole(folder / PAGE, text.encode())
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder / OUTCOMES}: these are no outcomes of benchmarks; remove it, or choose another folder"
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{folder}: cannot be written ({reason}); choose another folder with --results") from error


def _kept(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_bytes())["benchmarks"] if path.exists() else []
