"""What the records say in a few sentences: how the published claims fared, and the largest effect for and against one."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.experiments.config.claim import Claim
from leadline.experiments.publish.ledger import columns_of
from leadline.experiments.records.captions import EXACT, FOR_SINK, ON_ACCELERATOR, SMALL_LM, TOY, count
from leadline.experiments.records.decisions import OUTCOMES
from leadline.experiments.records.record import Record
from leadline.experiments.records.references import cite
from leadline.experiments.records.verdict import Verdict

SAID = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "equivalent": ("is equivalent", "are equivalent"),
    "undecided": ("is undecided", "are undecided"),
    "not testable here": ("is not testable here", "are not testable here"),
}


@dataclass(frozen=True)
class Finding:
    """One sentence, and the verdict that it is about."""

    lead: str  # what kind of finding it is; empty for the sentence of counts
    text: str
    verdict: Verdict | None = None


def findings(judged: Sequence[Verdict], claims: Mapping[tuple[str, str], Claim], records: Sequence[Record]) -> list[Finding]:
    """How many claims have each outcome at each scale, the strongest support and the strongest contradiction.

    The strongest verdict is that on a ratio whose interval lies farthest beyond the threshold of its claim: ratios of all
    quantities compare. It is one on a published claim, where one was measured.

    Args:
        judged: every verdict.
        claims: the claims by study and id.
        records: what was judged.

    Returns:
        A finding for published claims and one for others at each scale, and at most two more; none where nothing was measured.
    """
    measured = [verdict for verdict in judged if verdict.outcome != "not measured"]
    published, own = ([verdict for verdict in measured if verdict.own == is_own] for is_own in (False, True))
    said = []
    for kind, of_kind in (("published claim", published), ("claim of our own", own)):
        for column in columns_of(of_kind):
            said.append(Finding("", _counts(kind, column, [v for v in of_kind if v.column == column], records)))
    about = published or own
    for lead, outcome, side in (("Strongest support", "holds", "beyond"), ("Strongest contradiction", "fails", "short of")):
        ratios = [
            v for v in about if v.outcome == outcome and claims[v.study, v.id].log and claims[v.study, v.id].share is None
        ]
        best = max(ratios, key=_beyond, default=None)
        # Of "or more", so never rounded up.
        if best is not None and (factor := math.floor(10 * math.exp(_beyond(best))) / 10) > 1.0:
            source = "" if best.own else f" ({cite(best.source)})"
            # The interval of a claim about several arms is that of the arms which are least favourable to it.
            case = "in the least favourable case, " if claims[best.study, best.id].cases == "arms" else ""
            beyond = f"{case}{side} its threshold by a factor of {factor:.1f} or more"
            said.append(Finding(f"{lead}{source}", f"{best.statement.rstrip('.')}: {best.measured}, {beyond}.", best))
    return said


def _counts(kind: str, column: str, about: Sequence[Verdict], records: Sequence[Record]) -> str:
    """`Of 3 published claims tested on SmolLM2-135M, 2 hold and 1 fails.`"""
    outcomes = Counter(verdict.outcome for verdict in about)
    parts = [f"{outcomes[name]} {SAID[name][outcomes[name] != 1]}" for name in OUTCOMES if outcomes[name]]
    places = {
        TOY: "tested on toy tasks",
        SMALL_LM: "tested on small language models",
        FOR_SINK: "tested on small language models with a recipe chosen for a sink",
        ON_ACCELERATOR: "tested on an accelerator",
        EXACT: "computed without training",
    }
    place = places.get(column, f"tested on {column}")
    if len(about) == 1:
        return f"The one {kind} {place} {SAID[about[0].outcome][0]}{_basis(about, records)}."
    return f"Of {len(about)} {kind.replace('claim', 'claims')} {place}, {_listed(parts)}{_basis(about, records)}."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _basis(about: Sequence[Verdict], records: Sequence[Record]) -> str:
    """The number and size of the models that the verdicts rest on. One that several studies have is counted once."""
    compared = {(verdict.study, arm) for verdict in about for arm in verdict.arms}
    trained = [record for record in records if record.steps]
    models = {(r.arm_hash, r.seed): r.parameters for r in trained if (r.study, r.arm) in compared}
    sizes, total = models.values(), len({(record.arm_hash, record.seed) for record in trained})
    if not sizes:
        return ""
    low, high = count(min(sizes)), count(max(sizes))
    of_all = "" if len(sizes) == total else f" of {total:,}"
    return f", judged on {len(sizes):,}{of_all} trained models of {low if low == high else f'{low} to {high}'} parameters"


def _beyond(verdict: Verdict) -> float:
    """How far an interval of logarithms lies from 0; 0 where the interval holds 0, or where bounds decide and not 0."""
    low, high = (0.0, 0.0) if verdict.interval is None or verdict.null is None else verdict.interval
    return max(low, -high, 0.0)
