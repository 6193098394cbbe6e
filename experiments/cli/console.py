"""What commands share: JSON for programs, tables for people."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from leadline.experiments.runtime.cpu import cores, restart_with_huge_pages
from leadline.experiments.runtime.errors import UserError

# Characters of an error line, which may repeat what a file says.
LONGEST = 1200
# Seconds that a watch waits for a run to begin.
START = 30.0
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content, allow_nan=False))


def complain(text: str) -> None:
    """Lines on standard error, each under the name of the program; of a line that is too long its beginning and its end."""
    for line in text.splitlines() or [""]:
        words = " ".join(line.split())
        shown = words if len(words) <= LONGEST else f"{words[: LONGEST // 2]} … {words[-LONGEST // 2 :]}"
        typer.echo(f"leadline: {shown}", err=True)


def refuse_idle(*options: tuple[str, Any, str, bool]) -> None:
    """Refuses an option that has no effect: its name, its value, what it needs, and whether that is given."""
    for name, value, other, given in options:
        if value is not None and not given:
            raise UserError(f"{name} needs {other}")


def finite(value: float | None) -> float | None:
    """The value of an option, for its callback. BadParameter where it is infinite or no number."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not finite.")
    return value


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of equal keys as a table; floats have three digits."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160, markup=False, highlight=False).print(_table(rows))


def show_while(rows: Callable[[], Sequence[dict[str, Any]]], going: Callable[[dict[str, Any]], bool]) -> None:
    """Shows rows as a table, again every two seconds while one of them is `going`; the last table stays.

    Where none of them is `going` at the start, it waits `START` seconds for one.
    """
    from rich.live import Live

    until = time.monotonic() + START
    with Live(_table(shown := rows()), auto_refresh=False) as live:
        while (busy := any(map(going, shown))) or time.monotonic() < until:
            until = 0.0 if busy else until
            time.sleep(2.0)
            live.update(_table(shown := rows()), refresh=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(f"{value:.3g}" if isinstance(value, float) else str(value)) for value in row.values()))
    return table


def show_verdicts(verdicts: Sequence[Any]) -> None:
    """Statements with what was measured, or why nothing was, and the verdict; a line for each scale where there are several."""
    from leadline.experiments.publish.ledger import by_scale, statements

    rows = [
        {
            "claim": "\n".join(v.id for v in row),
            "statement": _with_published(row[0]),
            "measured": by_scale(row, lambda v: v.reason if v.outcome == "not measured" else v.measured),
            "verdict": by_scale(row, lambda v: v.outcome),
        }
        for row in statements(verdicts)
    ]
    show_rows(rows) if rows else typer.echo("no claims")


def _with_published(verdict: Any) -> str:
    """A statement and what is published of it."""
    if not verdict.published:
        return verdict.statement
    sentence = verdict.published[:1].upper() + verdict.published[1:]
    return f"{verdict.statement} {sentence if verdict.own else f'Published: {verdict.published}'}."


def begin_jax(devices: int | None = None, place: Any = None) -> None:
    """Before JAX starts: huge pages, and on a CPU a device a core, so that the models of an ensemble train side by side.

    Args:
        devices: cores that are used; None: all that are here.
        place: of this process among those that run together (leadline.experiments.runtime.hosts.Place); None: it is alone.
    """
    restart_with_huge_pages()
    from leadline.experiments.runtime.program_cache import start_jax

    note = start_jax(devices or cores())
    if note is not None:
        complain(note)
    if place is not None:
        from leadline.experiments.runtime.hosts import Place, join

        # What carries the messages of CPUs prints to file descriptor 1, which is for results.
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        where = Place(*place)
        if where.processes is not None:
            complain(f"process {where.process} of {where.processes}: waiting for the others at {where.coordinator}")
        join(where)
