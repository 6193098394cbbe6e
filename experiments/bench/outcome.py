"""The outcome of a contest as JSON: the times of all rounds, ratios, rates, and which targets are met."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.experiments.bench.contest import Case, Timed

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Peak:
    """The published FLOP/s of one accelerator, of dense bfloat16 products without sparsity, and the source."""

    flops: float
    source: str


# By the beginning of the name that JAX gives the device. Of several that fit, the longest counts.
PEAKS = {
    "NVIDIA H200": Peak(989.5e12, "NVIDIA H200 datasheet: 1,979 TFLOPS with sparsity, half of it without"),
    "NVIDIA H100": Peak(989.5e12, "NVIDIA H100 datasheet, SXM: 1,979 TFLOPS with sparsity, half of it without"),
    "NVIDIA H100 PCIe": Peak(756e12, "NVIDIA H100 datasheet, PCIe: 1,513 TFLOPS with sparsity, half of it without"),
    "NVIDIA A100": Peak(312e12, "NVIDIA A100 datasheet"),
    "TPU v4": Peak(275e12, "Google Cloud documentation, TPU v4"),
    "TPU v5 lite": Peak(197e12, "Google Cloud documentation, TPU v5e"),
    "TPU v5": Peak(459e12, "Google Cloud documentation, TPU v5p"),
    "TPU v6 lite": Peak(918e12, "Google Cloud documentation, TPU v6e"),
}


def published_peak(kind: str) -> Peak | None:
    """The peak of the device that JAX gives this name; None where none is known."""
    fitting = [name for name in PEAKS if kind.startswith(name)]
    return PEAKS[max(fitting, key=len)] if fitting else None


def outcome(case: Case, timed: Sequence[Timed], ceiling: Timed | None, machine: Mapping[str, Any]) -> Outcome:
    """The outcome of one case.

    Args:
        case: what was measured.
        timed: the contestants, leadline first.
        ceiling: the times of the case's ceiling, if it has one.
        machine: as `leadline.experiments.bench.machine.surroundings` describes it.
    """
    rate = ceiling.facts["flops"] / ceiling.median if ceiling is not None and ceiling.rounds else None
    peak = published_peak(machine["device_kind"]) if machine["accelerator"] else None
    rows = [_row(case, times, timed[0], rate, peak.flops if peak else None) for times in timed]
    content: Outcome = {"title": case.title, "contestants": rows}
    if ceiling is not None and rate is not None:
        content["ceiling"] = {"name": ceiling.name, "flops_a_second": rate, "rounds": list(ceiling.rounds)}
    if peak is not None and case.flops:
        content["peak"] = {"flops_a_second": peak.flops, "source": peak.source}
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
    if case.flops:
        row["flops_a_second"] = case.flops / times.median
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
