"""The outcome of a contest as JSON: the times of all rounds, ratios, rates, and which targets are met."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leadline.experiments.bench.contest import Case, Timed
from leadline.experiments.runtime.devices import accelerator_of

Outcome = dict[str, Any]


def outcome(case: Case, timed: Sequence[Timed], ceiling: Timed | None, machine: Mapping[str, Any]) -> Outcome:
    """The outcome of one case.

    Args:
        case: what was measured.
        timed: the contestants, leadline first.
        ceiling: the times of the case's ceiling, if it has one.
        machine: as `leadline.experiments.bench.machine.surroundings` describes it.
    """
    rate = ceiling.facts["flops"] / ceiling.median if ceiling is not None and ceiling.rounds else None
    accelerator = accelerator_of(machine["device_kind"]) if machine["accelerator"] else None
    rows = [_row(case, times, timed[0], rate, accelerator.bfloat16 if accelerator else None) for times in timed]
    content: Outcome = {"title": case.title, "contestants": rows}
    if ceiling is not None and rate is not None:
        content["ceiling"] = {"name": ceiling.name, "flops_a_second": rate, "rounds": list(ceiling.rounds)}
    if accelerator is not None and case.flops:
        content["peak"] = {"flops_a_second": accelerator.bfloat16, "source": accelerator.source}
    return content


def _row(case: Case, times: Timed, ours: Timed, ceiling: float | None, peak: float | None) -> Outcome:
    row: Outcome = {"name": times.name, "rounds": list(times.rounds), "facts": dict(times.facts)}
    if not times.rounds:
        return row
    row["seconds"] = times.median
    if times is not ours and ours.rounds:
        # Round by round, so that a drift of the machine cancels.
        each = [their / our for their, our in zip(times.rounds, ours.rounds, strict=True)]
        row["ratio"] = {"median": statistics.median(each), "low": min(each), "high": max(each)}
    if case.tokens:
        row["tokens_a_second"] = case.tokens / times.median
    if flops := times.facts.get("flops", case.flops):
        row["flops_a_second"] = flops / times.median
        row |= {"share": row["flops_a_second"] / ceiling} if ceiling else {}
        row |= {"utilisation": row["flops_a_second"] / peak} if peak else {}
    row["targets"] = _targets(case, row, of_peer=times is not ours)
    return row


def _targets(case: Case, row: Outcome, *, of_peer: bool) -> list[Outcome]:
    """The targets of a contestant: a ratio for a peer; for leadline shares of ceiling and peak, a rate and a time."""
    ours = (
        ("share of the ceiling", "at least", case.share, row.get("share")),
        ("utilisation", "at least", case.utilisation, row.get("utilisation")),
        ("tokens a second", "at least", case.rate, row.get("tokens_a_second")),
        ("seconds", "at most", case.seconds, row["seconds"]),
    )
    theirs = (("ratio", "at least", case.targets.get(row["name"]), row.get("ratio", {}).get("median")),)
    return [
        {"what": what, "bound": bound, "aim": aim, "found": value, "met": value >= aim if bound == "at least" else value <= aim}
        for what, bound, aim, value in (theirs if of_peer else ours)
        if aim is not None and value is not None
    ]
