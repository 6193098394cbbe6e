"""What a contest came to, as JSON holds it: the times of all rounds, and what follows from them."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.bench.contest import Case, Timed
from experiments.bench.peaks import published_peak

Outcome = dict[str, Any]


def outcome(case: Case, timed: Sequence[Timed], ceiling: Timed | None, machine: Mapping[str, Any]) -> Outcome:
    """Of one case: what every contestant took, its ratio to ours, rates, and which targets are met."""
    rate = ceiling.facts["flops"] / ceiling.median if ceiling is not None and ceiling.rounds else None
    peak = published_peak(machine["device_kind"]) if machine["accelerator"] else None
    rows = [_row(case, one, timed[0], rate, peak.flops if peak else None) for one in timed]
    found: Outcome = {"title": case.title, "contestants": rows}
    if ceiling is not None and rate is not None:
        found["ceiling"] = {"name": ceiling.name, "flops_a_second": rate, "rounds": list(ceiling.rounds)}
    if peak is not None and case.flops:
        found["peak"] = {"flops_a_second": peak.flops, "source": peak.source}
    return found


def _row(case: Case, one: Timed, ours: Timed, ceiling: float | None, peak: float | None) -> Outcome:
    row: Outcome = {"name": one.name, "rounds": list(one.rounds), "facts": dict(one.facts)}
    if not one.rounds:
        return row
    row["seconds"] = one.median
    if one is not ours and ours.rounds:
        row["ratio"] = ratio(one.rounds, ours.rounds)
    if case.tokens:
        row["tokens_a_second"] = case.tokens / one.median
    if case.flops:
        row["flops_a_second"] = case.flops / one.median
        row |= {"share": row["flops_a_second"] / ceiling} if ceiling else {}
        row |= {"utilisation": row["flops_a_second"] / peak} if peak else {}
    row["targets"] = _own_targets(case, row) if one is ours else _peer_targets(case, row)
    return row


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    """How many times as long as ours theirs took, round by round: the median and the range."""
    each = [their / our for their, our in zip(theirs, ours, strict=True)]
    return {"median": statistics.median(each), "low": min(each), "high": max(each)}


def _own_targets(case: Case, row: Outcome) -> list[Outcome]:
    """At least a share of the ceiling or of the peak and a rate, at most so many seconds."""
    found = []
    if case.share is not None and "share" in row:
        found.append(_target("share of the ceiling", "at least", case.share, row["share"]))
    if case.utilisation is not None and "utilisation" in row:
        found.append(_target("utilisation", "at least", case.utilisation, row["utilisation"]))
    if case.rate is not None:
        found.append(_target("tokens a second", "at least", case.rate, row["tokens_a_second"]))
    if case.seconds is not None:
        found.append(_target("seconds", "at most", case.seconds, row["seconds"]))
    return found


def _peer_targets(case: Case, row: Outcome) -> list[Outcome]:
    aim = case.targets.get(row["name"])
    return [] if aim is None or "ratio" not in row else [_target("ratio", "at least", aim, row["ratio"]["median"])]


def _target(what: str, bound: str, aim: float, found: float) -> Outcome:
    return {
        "what": what,
        "bound": bound,
        "aim": aim,
        "found": found,
        "met": found >= aim if bound == "at least" else found <= aim,
    }
