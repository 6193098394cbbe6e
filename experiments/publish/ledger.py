"""The ledger as tables: published statements by study, and statements of our own apart from them.

A statement names its threshold. Where a paper gives none, the threshold is the weakest reading that still says something:
"cuts" is "at most half", "does not remove" is "leaves at least a tenth", "stays flat" is "rises by at most 5 %". Arms of one
seed see the same batches, so they are compared seed by seed.
"""

from collections import Counter
from collections.abc import Sequence

from leadline.experiments.publish.table import MISSING, Table
from leadline.experiments.records.evidence import OUTCOMES
from leadline.experiments.records.references import cite
from leadline.experiments.records.verdict import Verdict

OWN = "our own statement"
RULE = (
    "a claim holds (fails) where the 95 % interval of Student of the mean margin over seeds lies above (below) 0, and is "
    "equivalent where it lies within a stated difference of 0; shares of seeds have intervals of Clopper and Pearson; an exact "
    "claim is decided by its sign; a claim whose precondition is not met here is not testable here"
)


def claims_table(judged: Sequence[Verdict]) -> Table:
    """Every claim with its verdict, study by study: published statements first, then our own."""
    rows = tuple(
        (v.study, v.id, v.statement, published(v), v.measured or MISSING, v.outcome, v.reason, str(v.n), v.scale or MISSING)
        for v in _ordered(judged)
    )
    columns = ("study", "claim", "statement", "published", "measured", "verdict", "why", "n", "scale")
    return Table("Claims and their verdicts", "claims", columns, rows, (RULE,))


def verdicts_table(judged: Sequence[Verdict]) -> Table:
    """What was said, what was measured and whether it holds here; claims that nothing was measured for are counted."""
    measured = [verdict for verdict in _ordered(judged) if verdict.outcome != "not measured"]
    rows = tuple((row.statement, published(row), row.measured, row.outcome) for row in measured)
    left = len(judged) - len(measured)
    notes = (f"{left} more claim{'s' if left != 1 else ''} not measured here",) if left else ()
    return Table("Verdicts", "verdicts", ("claim", "published", "measured here", "verdict"), rows, notes)


def ledger_table(judged: Sequence[Verdict]) -> Table:
    """How many claims of each study have each outcome: published statements, our own, and both in all."""
    rows = []
    for kind, is_own in (("published", False), ("our own", True)):
        of_kind = [verdict for verdict in judged if verdict.own == is_own]
        studies = dict.fromkeys(verdict.study for verdict in of_kind)
        groups = {name: [verdict for verdict in of_kind if verdict.study == name] for name in studies} | {"all": of_kind}
        for name, group in groups.items():
            counts = Counter(verdict.outcome for verdict in group)
            rows.append((kind, name, *(str(counts[outcome]) for outcome in OUTCOMES)))
    return Table("Claims by study", "ledger", ("statements", "study", *OUTCOMES), tuple(rows))


def totals_table(judged: Sequence[Verdict]) -> Table:
    """How many claims of all studies have each outcome: published statements, and our own."""
    rows = tuple((kind, *counts) for kind, study, *counts in ledger_table(judged).rows if study == "all")
    return Table("Claims", "totals", ("statements", *OUTCOMES), rows)


def published(verdict: Verdict) -> str:
    """The published figure with its source and the place in it: `18.18 % → 0.00 % (Gu et al. 2025, Table 4)`."""
    if verdict.own:
        return OWN
    place = ", ".join(part for part in (cite(verdict.source), verdict.where) if part)
    return f"{verdict.published} ({place})" if verdict.published else place


def _ordered(judged: Sequence[Verdict]) -> list[Verdict]:
    """Study by study in their order, published statements before our own."""
    studies = list(dict.fromkeys(verdict.study for verdict in judged))
    return sorted(judged, key=lambda verdict: (studies.index(verdict.study), verdict.own))
