"""The page of the benchmarks: every outcome in a folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.experiments.bench.table import table_of
from leadline.experiments.publish.table import markdown
from leadline.experiments.runtime.errors import UserError

PAGE = "bench.md"
HEAD = """# Benchmarks

`leadline bench` writes this page. Every contestant runs in a process of its own, and rounds alternate between them. *Times
ours* is the contestant's time over leadline's: the median over the rounds and, in brackets, their range. FLOP are those of
matrix products, with attention over visible keys only.
"""


def read_outcomes(folder: Path) -> list[dict[str, Any]]:
    """The outcomes of the benchmarks in a folder, by name.

    Raises:
        UserError: for a JSON file that is no outcome.
    """
    outcomes = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            outcomes.append(content | {"benchmark": content["benchmark"], "cases": content["cases"]})
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: this is no outcome of a benchmark; remove it, or choose another folder") from error
    return outcomes


def page(folder: Path) -> str:
    """Markdown: a section for each benchmark, with its machine, versions, date and commit."""
    return "\n".join([HEAD, *(_section(content) for content in read_outcomes(folder))])


def _section(content: Mapping[str, Any]) -> str:
    tables = [markdown(table_of(case, number)) for number, case in enumerate(content["cases"], start=1)]
    notes = [f"- {note}\n" for note in content["notes"]]
    return "\n".join([f"## {content['benchmark']}: {content['question']}\n", _where(content), *tables, "".join(notes)])


def _where(content: Mapping[str, Any]) -> str:
    """Machine, versions, date and commit."""
    machine = content["machine"]
    parts = [f"{machine['cpu']}, {machine['cores']} cores"]
    parts += [f"{machine['memory_gib']:.0f} GiB"] if machine["memory_gib"] else []
    parts += [machine["accelerator"]] if machine["accelerator"] else []
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    commit = f"commit {content['commit'][:10]}{' with changes' if content['dirty'] else ''}" if content["commit"] else ""
    day = ", ".join(part for part in (content["date"], commit, f"{content['rounds']} rounds") if part)
    return f"{', '.join(parts)}; {day}.\n{versions}.\n"
