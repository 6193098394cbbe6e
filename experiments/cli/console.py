"""What commands share: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content, allow_nan=False))


def complain(line: str) -> None:
    """One line on standard error."""
    typer.echo(f"leadline: {' '.join(line.split())}", err=True)


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of equal keys as a table; floats have three digits."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 160, markup=False, highlight=False).print(table)
