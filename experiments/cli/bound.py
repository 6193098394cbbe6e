"""The command that bounds the base of RoPE for a length."""

from typing import Annotated

import typer

from leadline.experiments.cli.console import AsJson, print_json


def bound(
    head_dim: Annotated[int, typer.Option("--head-dim", help="Channels that RoPE rotates.")],
    length: Annotated[int, typer.Option("--length", help="Context length N in tokens; every distance m < N is tested.")],
    inclusive: Annotated[bool, typer.Option("--inclusive", help="Test m = N too.")] = False,
    every: Annotated[int, typer.Option("--every", metavar="n", help="Test every n-th m only: 0, n, 2n, …")] = 1,
    as_json: AsJson = False,
) -> None:
    """The smallest RoPE base whose B_m is never negative below a length, and the base beyond which none's is."""
    from rich.console import Console
    from rich.progress import Progress

    from leadline.experiments.measure.bound import bound_report

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(f"head dim {head_dim}, distances below {length}", total=length)
        report = bound_report(
            head_dim, length, inclusive=inclusive, every=every, tell=lambda tested: progress.update(task, completed=tested)
        )
    if as_json:
        print_json(report)
        return
    typer.echo(f"smallest base      {_base(report['infimum'])}\nlargest that fails {_base(report['largest_infeasible'])}")
    for low, high in report["islands"]:
        typer.echo(f"island             {low:.8g} to {high:.8g}")
    for source, entry in report["published"].items():
        state = "holds" if entry["feasible"] else f"fails first at m = {entry['first_violation']}"
        typer.echo(f"published          {entry['value']:g} {state} ({source})")


def _base(base: float | None) -> str:
    return "none: every base fails" if base is None else f"{base:.8g}"
