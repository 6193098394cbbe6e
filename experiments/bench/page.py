"""Outcomes as tables of text, for a terminal and for a page. Empty columns are left out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadline.experiments.publish.table import MISSING, Table, markdown

HIDDEN = ("value", "absent", "flops")
HEAD = """# Benchmarks

`leadline bench` writes this page. Every contestant runs in a process of its own, and rounds alternate between them. *Times
ours* is the contestant's time over leadline's: the median over the rounds and, in brackets, their range. FLOP are those of
matrix products, with attention over visible keys only.
"""


def page(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a section for each benchmark, with its machine, versions, date and commit."""
    return "\n".join([HEAD, *map(_section, outcomes)])


def _section(content: Mapping[str, Any]) -> str:
    machine = content["machine"]
    parts = [f"{machine['cpu']}, {machine['cores']} cores"]
    parts += [f"{machine['memory_gib']:.0f} GiB"] if machine["memory_gib"] else []
    parts += [machine["accelerator"]] if machine["accelerator"] else []
    parts += [f"{machine['without']} hidden from JAX, oneDNN and MKL"] if "without" in machine else []
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    commit = f"commit {content['commit'][:10]}{' with changes' if content['dirty'] else ''}" if content["commit"] else ""
    day = ", ".join(part for part in (content["date"], commit, f"{content['rounds']} rounds") if part)
    lines = [f"## {content['benchmark']}: {content['question']}\n", f"{', '.join(parts)}; {day}.\n{versions}.\n"]
    for number, case in enumerate(content["cases"], start=1):
        rows = rows_of(case)
        cells = tuple(tuple(row.values()) for row in rows)
        lines.append(markdown(Table(case["title"], f"case_{number}", tuple(rows[0]), cells, tuple(ceilings(case)))))
    return "\n".join([*lines, "".join(f"- {note}\n" for note in content["notes"])])


def rows_of(case: Mapping[str, Any]) -> list[dict[str, str]]:
    """A row for each contestant, by the names of the columns."""
    contestants = case["contestants"]
    facts = dict.fromkeys(fact for row in contestants for fact in row["facts"] if fact not in HIDDEN)
    rows = [_row(entry) | {_title(fact): _fact(fact, entry["facts"].get(fact)) for fact in facts} for entry in contestants]
    filled = [column for column in rows[0] if any(row[column] for row in rows)]
    return [{column: row[column] or MISSING for column in filled} for row in rows]


def ceilings(case: Mapping[str, Any]) -> list[str]:
    """A line for the measured rate of the machine's matrix product, and one for the published peak of its accelerator."""
    lines = []
    if "ceiling" in case:
        lines.append(f"ceiling: {case['ceiling']['name']} in the same run: {_giga(case['ceiling']['flops_a_second'])} GFLOP/s")
    if "peak" in case:
        lines.append(f"peak: {_giga(case['peak']['flops_a_second'])} GFLOP/s ({case['peak']['source']})")
    return lines


def _row(entry: Mapping[str, Any]) -> dict[str, str]:
    targets: Sequence[Mapping[str, Any]] = entry.get("targets", ())
    ratio = entry.get("ratio")
    absent = entry["facts"].get("absent", "")
    return {
        "contestant": entry["name"],
        "median": duration(entry["seconds"]) if "seconds" in entry else absent,
        "times ours": f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})" if ratio else "",
        "target": ", ".join(_aim(target) for target in targets),
        "met": ", ".join("yes" if target["met"] else "no" for target in targets),
        "GFLOP/s": _giga(entry["flops_a_second"]) if "flops_a_second" in entry else "",
        "of the ceiling": f"{entry['share']:.0%}" if "share" in entry else "",
        "of the peak": f"{entry['utilisation']:.1%}" if "utilisation" in entry else "",
        "tokens/s": f"{entry['tokens_a_second']:,.0f}" if "tokens_a_second" in entry else "",
    }


def duration(seconds: float) -> str:
    """Seconds to three digits, in s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 1000 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs"


# What a target is of: the words before its sign, and how its number is written.
AIMS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "share of the ceiling": ("share of the ceiling ", "{:.0%}".format),
    "utilisation": ("utilisation ", "{:.0%}".format),
    "tokens a second": ("tokens/s ", "{:,.0f}".format),
    "seconds": ("", duration),
    "ratio": ("", "{:.3g}".format),
}


def _aim(target: Mapping[str, Any]) -> str:
    words, written = AIMS[target["what"]]
    return f"{words}{'≥' if target['bound'] == 'at least' else '≤'} {written(target['aim'])}"


def _title(fact: str) -> str:
    """The heading of a fact: "peak_mib" is "peak MiB", and "compile_seconds" is "compile", since its cells have units."""
    words = fact.removesuffix("_seconds").split("_")
    return " ".join("MiB" if word == "mib" else word for word in words)


def _fact(name: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case float() if name.endswith("_seconds"):
            return duration(value)
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case _:
            return str(value)


def _giga(flops: float) -> str:
    return f"{flops / 1e9:,.0f}" if flops >= 1e10 else f"{flops / 1e9:.2f}"
