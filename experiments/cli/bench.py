"""The command that measures leadline beside its peers."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.experiments.cli.console import AsJson, complain, print_json, show_rows
from leadline.experiments.runtime.cpu import restart_with_huge_pages


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Without any, all; --list names them.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="In each of them every contestant has its turn.")] = 5,
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Where outcomes and their page are kept.")] = Path(
        "results/bench"
    ),
    listing: Annotated[bool, typer.Option("--list", help="Print the benchmarks and what each asks.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure leadline beside named peers: times, ratios, shares of the machine's own ceiling."""
    restart_with_huge_pages()  # for the contestants, all alike
    from leadline.experiments.bench.contest import ContestError
    from leadline.experiments.bench.machine import surroundings
    from leadline.experiments.bench.run import benchmarks, chosen, keep, measured

    if listing:
        rows = [{"benchmark": b.name, "question": b.question, "cases": len(b.cases)} for b in benchmarks()]
        print_json({"benchmarks": rows}) if as_json else show_rows(rows)
        return
    chosen_benchmarks, outcomes, failed = chosen(names or []), [], False
    about = surroundings()
    with ExitStack() as stack:
        tell = _teller(stack)
        for benchmark in chosen_benchmarks:
            try:
                outcomes.append(measured(benchmark, rounds, about, tell, (lambda _: None) if as_json else _show))
            except ContestError as error:
                complain(f"benchmark {benchmark.name}: {error}")
                failed = True
                continue
            keep(results, outcomes[-1])
            if not as_json:
                typer.echo("".join(f"{note}\n" for note in benchmark.notes))
    if as_json:
        print_json({"benchmarks": outcomes})
    if failed:
        raise typer.Exit(1)


def _show(case: Any) -> None:
    from leadline.experiments.bench.page import ceilings, rows_of

    typer.echo(f"\n{case['title']}")
    show_rows(rows_of(case))
    for line in ceilings(case):
        typer.echo(line)


def _teller(stack: ExitStack) -> Any:
    """Shows what is going on in a line on standard error, on a terminal; elsewhere it says nothing."""
    if not sys.stderr.isatty():
        return lambda line: None  # noqa: ARG005
    from rich.console import Console

    return stack.enter_context(Console(stderr=True).status("")).update
