"""The page of all benchmarks whose outcome a folder holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.bench.rows import table_of
from experiments.errors import UserError
from experiments.publish.table import markdown

PAGE = "bench.md"
HEAD = """# Benchmarks

`leadline bench` writes this page. Every contestant has a process of its own; rounds alternate between them. *Times ours* is how
many times as long as leadline a contestant takes: the median over the rounds and, in brackets, their range. FLOP are those of
matrix products, attention over visible keys only.
"""


def read_outcomes(folder: Path) -> list[dict[str, Any]]:
    """Those of every benchmark in the folder, by name. UserError for a file that is none."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found.append(content | {"benchmark": content["benchmark"], "cases": content["cases"]})
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: this is no outcome of a benchmark; remove it, or choose another folder") from error
    return found


def page(folder: Path) -> str:
    """Markdown: a section a benchmark, with the machine, the versions and the day it was measured on."""
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
