"""The commands beside studies: the bound of RoPE's base, benchmarks, the schema, and what is installed."""

import itertools
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from leadline.experiments.cli.console import AsJson, begin_jax, complain, print_json, refuse_idle, show_rows
from leadline.experiments.runtime.cpu import restart_with_huge_pages
from leadline.experiments.runtime.errors import UserError

ROUNDS, OUTCOMES = 5, Path("results/bench")


def bound(
    head_dim: Annotated[int, typer.Option("--head-dim", help="Channels that RoPE rotates.")],
    length: Annotated[int, typer.Option("--length", max=10**8, help="Context length N in tokens; every m < N is tested.")],
    inclusive: Annotated[bool, typer.Option("--inclusive", help="Test m = N too.")] = False,
    every: Annotated[int, typer.Option("--every", metavar="n", help="Test every n-th m only: 0, n, 2n, …")] = 1,
    as_json: AsJson = False,
) -> None:
    """Print the smallest RoPE base for a context length.

    At that base B_m = Σ cos(m θ_i) is negative at no distance m below the length. No base fails above the largest that fails;
    between the two, bases may fail.
    """
    from rich.console import Console
    from rich.progress import Progress

    from leadline.experiments.measure.bound import bound_report

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(f"head dim {head_dim}, distances below {length}", total=length)
        try:
            report = bound_report(
                head_dim, length, inclusive=inclusive, every=every, tell=lambda tested: progress.update(task, completed=tested)
            )
        except MemoryError as error:
            raise UserError(f"--length {length}: {str(error) or 'out of memory'}; lower it, or raise --every") from error
    if as_json:
        print_json(report)
        return
    typer.echo(f"smallest base      {_base(report['infimum'])}\nlargest that fails {_largest(report['largest_infeasible'])}")
    for low, high in report["islands"]:
        typer.echo(f"island             {low:.8g} to {high:.8g}")
    for source, entry in report["published"].items():
        state = "holds" if entry["feasible"] else f"fails first at m = {entry['first_violation']}"
        typer.echo(f"published          {entry['value']:g} {state} ({source})")


def _base(base: float | None) -> str:
    return "none: every base fails" if base is None else f"{base:.8g}"


def _largest(base: float | None) -> str:
    return "none: every base from 1 on holds" if base == 1 else _base(base)  # the search begins at 1


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Without any, all; --list names them.")] = None,
    cases: Annotated[
        list[str] | None, typer.Option("--case", metavar="TEXT", help="Only cases whose title has it; repeatable.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, help=f"Rounds. Each times every contestant once. Default: {ROUNDS}."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help=f"Where outcomes and their page are kept; default: {OUTCOMES}."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Print the benchmarks and what each asks.")] = False,
    hides_avx512: Annotated[bool, typer.Option("--without-avx512", help="Hide AVX-512 from JAX, oneDNN and MKL.")] = False,
    as_json: AsJson = False,
) -> None:
    """Time leadline beside named peers."""
    options = {
        "NAME": names,
        "--case": cases,
        "--rounds": rounds,
        "--results": results,
        "--without-avx512": hides_avx512 or None,
    }
    refuse_idle(*((name, value, "the command without --list", not listing) for name, value in options.items()))
    restart_with_huge_pages()  # for the contestants, all alike
    from rich.console import Console

    from leadline.experiments.bench.isa import without_avx512
    from leadline.experiments.bench.machine import surroundings
    from leadline.experiments.bench.run import chosen, measured

    if listing:
        _list_benchmarks(as_json=as_json)
        return
    about = surroundings()
    show = (lambda _: None) if as_json else _show
    planned = chosen(names or [], cases or [], about)
    with ExitStack() as stack:
        # What is going on, in a line on standard error, on a terminal.
        status = stack.enter_context(Console(stderr=True).status("")) if sys.stderr.isatty() else None
        tell = (lambda _: None) if status is None else status.update
        variables = {}
        if hides_avx512:
            about["machine"]["without"] = "AVX-512"
            variables = without_avx512(Path(stack.enter_context(TemporaryDirectory(prefix="leadline-bench-"))))
        time = partial(measured, rounds=rounds or ROUNDS, about=about, variables=variables, tell=tell, show=show)
        outcomes = _timed(planned, time, results or OUTCOMES, with_notes=not as_json)
    if as_json:
        print_json({"benchmarks": outcomes})
    if len(outcomes) < len(planned):
        raise typer.Exit(1)


def _timed(
    benchmarks: Sequence[Any], time: Callable[[Any], dict[str, Any]], results: Path, *, with_notes: bool
) -> list[dict[str, Any]]:
    """The outcomes of benchmarks, each kept as soon as it is there. One that fails is told and has none."""
    from leadline.experiments.bench.contest import ContestError
    from leadline.experiments.bench.run import keep

    outcomes = []
    for benchmark in benchmarks:
        try:
            outcomes.append(time(benchmark))
        except ContestError as error:
            complain(f"benchmark {benchmark.name}: {error}")
            continue
        keep(results, outcomes[-1])
        if with_notes:
            typer.echo("".join(f"{note}\n" for note in benchmark.notes))
    return outcomes


def _list_benchmarks(*, as_json: bool) -> None:
    from leadline.experiments.bench.run import benchmarks

    rows = [{"benchmark": b.name, "question": b.question, "cases": len(b.cases)} for b in benchmarks()]
    print_json({"benchmarks": rows}) if as_json else show_rows(rows)


def _show(case: Any) -> None:
    from leadline.experiments.bench.page import ceilings, rows_of

    typer.echo(f"\n{case['title']}")
    show_rows(rows_of(case))
    for line in ceilings(case):
        typer.echo(line)


def schema(
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="Write config.schema.json, config.md and quantities.md there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of configurations."""
    from leadline.experiments.config.schema_page import documents
    from leadline.experiments.publish.quantities_page import quantities_page

    files = documents() | {"quantities.md": quantities_page()}
    if into is None:
        typer.echo(files["config.schema.json"], nl=False)
        return
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (into / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{into}: cannot be written ({error.strerror}); choose another folder") from error
    written = [str(into / name) for name in files]
    print_json({"files": written}) if as_json else typer.echo("\n".join(written))


def doctor(as_json: AsJson = False) -> None:
    """Print versions and devices, and what is missing."""
    begin_jax()
    import jax.numpy as jnp

    from leadline.experiments.records.provenance import provenance
    from leadline.experiments.runtime.program_cache import kept_where
    from leadline.model.attention.attention import form
    from leadline.model.attention.scores import Scores

    facts = {**provenance(), "programs": kept_where()}
    if as_json:
        print_json(facts)
        return
    for name, version in facts["versions"].items():
        typer.echo(f"{name:18} {version}")
    device = facts["device"]
    typer.echo(f"{'devices':18} {device['count']} x {device['kind']} ({device['platform']})")
    if device["platform"] == "cpu":
        typer.echo(f"{'accelerator':18} none; for one, install the extra that fits it: .[cuda13], .[cuda12] or .[tpu]")
    heads = {"device": device["platform"], "channels": 64, "itemsize": 2}
    by_form = itertools.groupby((2**n for n in range(21)), lambda tokens: form(tokens, tokens, **heads))
    *shorter, (longest, _) = [(name, max(lengths)) for name, lengths in by_form]
    forms = "".join(f"{name} up to {tokens} tokens, " for name, tokens in shorter) + longest + (" beyond" if shorter else "")
    other = form(1, 1, **heads, scores=Scores(cap=jnp.float32(1)))
    typer.echo(f"{'attention':18} softmax, window, initial tokens, ALiBi, sink logit: {forms}; others: {other}")
    typer.echo(f"{'compiled programs':18} {facts['programs'] or 'not kept'}")
    typer.echo(f"{'commit':18} {facts['commit'] or 'not in a git checkout'}")
