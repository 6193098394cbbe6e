"""The ledger as tables: published statements by study, and statements of our own apart from them.

A statement that is tested at several scales, as on small models and on a published one, is a row with a column a scale.

A statement names its threshold. Where a paper gives none, the threshold is the weakest reading that still says something:
"cuts" is "at most half", "does not remove" is "leaves at least a tenth", "stays flat" is "rises by at most 5 %". Arms of one
seed see the same batches, so they are compared seed by seed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from leadline.experiments.publish.table import MISSING, Table
from leadline.experiments.records.captions import COLUMNS, EXACT, FOR_SINK, NOT_RUN, SMALL_LM, TOY
from leadline.experiments.records.decisions import OUTCOMES, interval_text
from leadline.experiments.records.references import cite
from leadline.experiments.records.verdict import Verdict

OWN = "our own statement"
UNNAMED = (TOY, SMALL_LM, EXACT)  # columns of the ledger that are not named beside a figure
RULE = (
    "a claim holds (fails) where Student's 95 % interval of the mean margin over seeds lies above (below) 0, and is equivalent "
    "where it lies within a stated difference of 0; of several arms or looks the intervals are wider, so that a decision errs "
    "in at most 5 %; shares of seeds have intervals of Clopper and Pearson; an exact claim is decided by its sign; a claim "
    "about one published model is decided by the interval over documents where at least 30 were measured, and otherwise by its "
    "figures; a claim whose precondition is not met is not testable here"
)
SENSITIVITY = (
    "q: the p-value after Benjamini and Hochberg over the ledger; threshold: the number in the statement, beside the interval "
    "of the figure that it is compared with; a claim is undecided while the threshold lies in the interval; for perplexities "
    "the outcome by other protocols"
)


def claims_table(judged: Sequence[Verdict]) -> Table:
    """Every claim with its verdict, study by study: published statements first, then our own."""
    verdicts = [verdict for row in statements(judged) for verdict in row]
    rows = tuple(
        (
            *(v.study, v.id, v.statement, published(v), v.measured or MISSING, v.outcome, v.reason, str(v.n)),
            *(text or MISSING for text in (_q(v), sensitivity(v), _scale(v), ", ".join(v.arms), v.command)),
        )
        for v in verdicts
    )
    columns = (
        *("study", "claim", "statement", "published", "measured", "verdict", "why", "n"),
        *("q", "threshold", "scale", "arms", "command"),
    )
    return Table("Claims and their verdicts", "claims", columns, rows, (RULE, SENSITIVITY))


def scales_table(judged: Sequence[Verdict]) -> Table:
    """The statements that were tested at several scales, a column a scale."""
    several = several_scales(judged)
    columns = columns_of(verdict for row in several for verdict in row)
    rows = tuple(
        (
            row[0].statement,
            published(row[0]),
            *("; ".join(_cell(verdict) for verdict in row if verdict.column == column) or MISSING for column in columns),
        )
        for row in several
    )
    return Table("Claims at several scales", "scales", ("claim", "published", *columns), rows)


def protocols_table(judged: Sequence[Verdict]) -> Table:
    """The outcome of every claim on perplexity by each protocol; those that turn stand first."""
    compared = [verdict for row in statements(judged) for verdict in row if verdict.protocols]
    ordered = sorted(compared, key=lambda verdict: len(set(verdict.protocols.values())) == 1)
    columns = list(dict.fromkeys(protocol_heading(name) for verdict in ordered for name in verdict.protocols))
    rows = []
    for verdict in ordered:
        outcomes = {protocol_heading(name): outcome for name, outcome in verdict.protocols.items()}
        rows.append((verdict.id, verdict.statement, verdict.column, *(outcomes.get(column, MISSING) for column in columns)))
    turned = sum(len(set(verdict.protocols.values())) > 1 for verdict in ordered)
    note = f"{len(ordered) - turned} of {len(ordered)} claims have one outcome by all protocols"
    notes = (
        note,
        "the verdict on a statement is by the protocol that it names, else by tokens; other columns show what it would be",
    )
    return Table(
        "Claims on perplexity by protocol", "protocols", ("claim", "statement", "models", *columns), tuple(rows), notes
    )


def protocol_heading(name: str) -> str:
    """The name of a protocol in tables and figures. "last 64" and "last 128" are one protocol, "last positions"."""
    return "last positions" if name.startswith("last") else name


def _cell(verdict: Verdict) -> str:
    """`holds: gate: sink rate 0.05; softmax: sink rate 0.9 (n = 3, 95 % interval [0.8, 0.9], 116k parameters …)`."""
    if not verdict.measured:
        return verdict.outcome
    if verdict.outcome == "not testable here":
        return f"{verdict.outcome}: {verdict.reason} ({verdict.measured}; {basis(verdict)})"
    return f"{verdict.outcome}: {verdict.measured} ({basis(verdict)})"


def basis(verdict: Verdict) -> str:
    """What an outcome rests on: seeds or cases, the interval and the scale, or one model; and the text that was measured on."""
    interval = f"{interval_text(verdict.interval, verdict.level)} of the {verdict.interval_of}" if verdict.interval else ""
    if verdict.column not in COLUMNS:
        parts = [f"one model, {interval or 'no interval'}"]
    else:
        parts = [f"n = {verdict.n}", interval, verdict.scale]
    return ", ".join(part for part in (*parts, verdict.windows) if part)


def sensitivity(verdict: Verdict) -> str:
    """`0.5 against 0.12 to 0.17; last 64: undecided`: what the threshold is compared with, and protocols of another outcome."""
    parts = []
    if verdict.turns is not None:
        stated, measured = (" to ".join(dict.fromkeys(f"{n:.4g}" for n in pair)) for pair in (verdict.threshold, verdict.turns))
        parts.append(f"{stated} against {measured}")
    turned = [f"{name}: {outcome}" for name, outcome in verdict.protocols.items() if outcome != verdict.outcome]
    if verdict.protocols:
        parts += turned or [f"the same by all {len(verdict.protocols)} protocols"]
    return "; ".join(parts)


def strength(verdict: Verdict) -> str:
    """`q = 0.012; threshold 0.5 against 0.12 to 0.17`: how strong the evidence is, and what would turn the verdict."""
    parts = [f"q = {_q(verdict)}" if verdict.q is not None else "", sensitivity(verdict)]
    return "; ".join(part for part in (parts[0], f"threshold {parts[1]}" if parts[1] else "") if part)


def _q(verdict: Verdict) -> str:
    return "" if verdict.q is None else f"{verdict.q:.2g}"


def statements(judged: Sequence[Verdict]) -> list[list[Verdict]]:
    """The verdicts on each statement, those on small models first; by study, published statements before our own."""
    rows: dict[str, list[Verdict]] = {}
    for verdict in judged:
        rows.setdefault(verdict.statement, []).append(verdict)
    ordered = [sorted(row, key=lambda verdict: verdict.column not in (TOY, SMALL_LM, FOR_SINK)) for row in rows.values()]
    studies = list(dict.fromkeys(verdict.study for verdict in judged))
    return sorted(ordered, key=lambda row: (studies.index(row[0].study), row[0].own))


def several_scales(judged: Sequence[Verdict]) -> list[list[Verdict]]:
    """The verdicts on each statement that claims test at several scales, and that something was measured for."""
    rows = (row for row in statements([v for v in judged if v.column != NOT_RUN]) if len(columns_of(row)) > 1)
    return [row for row in rows if any(verdict.outcome != "not measured" for verdict in row)]


def columns_of(judged: Iterable[Verdict]) -> list[str]:
    """The scales of verdicts, those of COLUMNS first, then published models by name."""
    columns = {verdict.column for verdict in judged}
    return [*(column for column in COLUMNS if column in columns), *sorted(columns - {*COLUMNS})]


def by_scale(row: Sequence[Verdict], text: Callable[[Verdict], str]) -> str:
    """A text of each verdict on one statement, with its scale before it unless all are of one kind of small model, or exact."""
    if columns_of(row) in [[column] for column in UNNAMED]:
        return "\n".join(map(text, row))
    return "\n".join(f"{verdict.column}: {text(verdict)}" for verdict in row)


def ledger_table(judged: Sequence[Verdict]) -> Table:
    """How many claims of each study have each outcome: published statements, our own, and both in all, each scale by itself."""
    rows = []
    for kind, of_kind in _kinds(judged):
        studies = dict.fromkeys(verdict.study for verdict in of_kind)
        rows += [(kind, name, *_counts(verdict for verdict in of_kind if verdict.study == name)) for name in studies]
        rows.append((kind, "all", *_counts(of_kind)))
    return Table("Claims by study", "ledger", ("statements", "study", *OUTCOMES), tuple(rows))


def _counts(judged: Iterable[Verdict]) -> list[str]:
    """How many verdicts have each outcome."""
    counts = Counter(verdict.outcome for verdict in judged)
    return [str(counts[outcome]) for outcome in OUTCOMES]


def _kinds(judged: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """Published statements and our own, at each scale."""
    kinds = []
    for name, is_own in (("published", False), ("our own", True)):
        of_kind = [verdict for verdict in judged if verdict.own == is_own]
        for column in columns_of(of_kind):
            kinds.append((f"{name}, {column}", [verdict for verdict in of_kind if verdict.column == column]))
    return kinds


def totals_table(judged: Sequence[Verdict]) -> Table:
    """How many claims of the studies that were run have each outcome: published statements, and our own."""
    run = [verdict for verdict in judged if verdict.column != NOT_RUN]
    rows = tuple((kind, *_counts(of_kind)) for kind, of_kind in _kinds(run))
    failed = [verdict for verdict in run if verdict.outcome == "fails" and not verdict.own]
    larger = sum(bool(verdict.shown_at) for verdict in failed)
    note = f"{larger} of {len(failed)} published claims that fail were shown at a larger scale, and are not shown at ours"
    return Table("Claims", "totals", ("statements", *OUTCOMES), rows, (note,) if larger else ())


def published(verdict: Verdict) -> str:
    """The published figure with its source and the place in it: `18.18 % → 0.00 % (Gu et al. 2025, Table 4)`."""
    if verdict.own:
        return verdict.published or OWN
    place = cite(verdict.source, verdict.where)
    return f"{verdict.published} ({place})" if verdict.published else place


def _scale(verdict: Verdict) -> str:
    return "; ".join(part for part in (verdict.scale, verdict.windows) if part)
