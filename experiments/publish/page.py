"""The page of a results folder: what was found, every claim with its evidence, every study and every run group."""

import base64
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from leadline.experiments.config.claim import Claim
from leadline.experiments.publish.contents import FIGURES, IMAGES, PRINTERS, Contents, Section, figures_of
from leadline.experiments.publish.findings import findings
from leadline.experiments.publish.ledger import OWN, RULE, UNNAMED, basis, columns_of, several_scales, strength
from leadline.experiments.publish.run_groups import HEIGHT, WIDTH, ArmRuns, run_groups, run_id
from leadline.experiments.publish.shown import file_name
from leadline.experiments.publish.style import Drawing
from leadline.experiments.records.captions import provenance
from leadline.experiments.records.decisions import OUTCOMES, Outcome
from leadline.experiments.records.references import Reference, cite, references
from leadline.experiments.records.verdict import Verdict

TEMPLATES = Path(__file__).with_name("templates")
# The class of the mark of an outcome.
MARKS = {"holds": "holds", "equivalent": "mixed", "fails": "fails", "undecided": "mixed"}


@dataclass(frozen=True)
class ClaimRow:
    """A verdict and what it links to."""

    verdict: Verdict
    study: str  # its title
    cited: str  # the source and the place in it; empty for a statement of our own
    link: str  # of the source
    figure: str  # the name of a figure that shows a compared quantity; empty where there is none
    runs: tuple[tuple[str, str], ...]  # identifier and label of the run groups that were compared

    @property
    def id(self) -> str:
        return claim_id(self.verdict)

    @property
    def place(self) -> int:
        """The place of its outcome among the outcomes."""
        return OUTCOMES.index(self.verdict.outcome)


@dataclass(frozen=True)
class StudyPart:
    """A study on the page."""

    section: Section
    claims: tuple[ClaimRow, ...]
    groups: tuple[ArmRuns, ...]
    command: str
    counts: tuple[tuple[Outcome, int], ...]  # of its claims, by outcome


def page_text(contents: Contents, results: Path, *, inline: bool = False) -> str:
    """The page as one HTML text, with style and script in it and no address that a browser fetches by itself.

    Args:
        contents: what the page shows.
        results: the folder that the page is written to, and that links are relative to.
        inline: whether pictures are in the page; otherwise it shows the SVG files beside it.
    """
    cited = references()
    parts = [_part(section, results, cited) for section in contents.sections]
    rows = [row for part in parts for row in part.claims]
    claims = {(part.section.study, claim.id): claim for part in parts for claim in part.section.described.claims}
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["css"] = css_text
    tables = [table for part in parts for table in part.section.tables]
    said = findings(contents.verdicts, claims, contents.records)
    text = environment.get_template("page.html.j2").render(
        findings=[(finding, finding.verdict and claim_id(finding.verdict)) for finding in said],
        tables=tables,
        numbers={table.name: number for number, table in enumerate(tables)},
        **_claims(rows),
        basis=basis,
        strength=strength,
        pictures=contents.pictures,
        outcomes=[(name, MARKS.get(name, "none")) for name in OUTCOMES],
        marks={name: MARKS.get(name, "none") for name in OUTCOMES},
        rule=RULE,
        own_statement=OWN,
        unnamed=UNNAMED,
        parts=parts,
        records=contents.records,
        versions=sorted({f"{name} {version}" for record in contents.records for name, version in record.versions.items()}),
        provenance=provenance(contents.records),
        notes=contents.notes,
        formats=list(PRINTERS),
        images=IMAGES,
        source_of=_data if inline else (lambda drawing: f"{FIGURES}/{drawing.name}.svg"),
        curve_size=(WIDTH, HEIGHT),
    )
    return re.sub(r"\n\s+", "\n", text)


def css_text(text: str) -> Markup:
    """A text as a string of CSS within HTML."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("<", r"\3c ").replace("\n", " ")
    return Markup(f'"{escaped}"')


def claim_id(verdict: Verdict) -> str:
    """The identifier of a claim on the page."""
    return f"claim-{verdict.study}-{verdict.id}"


def _data(drawing: Drawing) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing.svg).decode()}"


def _claims(rows: Sequence[ClaimRow]) -> dict[str, Any]:
    """The statements at several scales with the columns of their table, the groups of all others, and how many are listed."""
    of_verdict = {row.id: row for row in rows}
    several = [[of_verdict[claim_id(v)] for v in row] for row in several_scales([row.verdict for row in rows])]
    compared = {row.id for of_statement in several for row in of_statement}
    single = [row for row in rows if row.id not in compared]
    # A statement at several scales is listed under each of its outcomes.
    counts = Counter(row.verdict.outcome for row in single)
    counts.update(outcome for of_statement in several for outcome in {row.verdict.outcome for row in of_statement})
    return {
        "several": several,
        "columns": columns_of(row.verdict for of_statement in several for row in of_statement),
        "groups_of_claims": _groups(single),
        "counts": counts,
        "listed": len(single) + len(several),
    }


def _groups(rows: Sequence[ClaimRow]) -> list[tuple[str, bool, list[ClaimRow]]]:
    """The claims under their headings, and whether these are folded: published ones, our own, those not measured.

    What is decided stands first.
    """
    measured = sorted((row for row in rows if row.verdict.outcome != "not measured"), key=lambda row: row.place)
    groups = [
        ("Published claims", False, [row for row in measured if not row.verdict.own]),
        ("Statements of our own", True, [row for row in measured if row.verdict.own]),
        ("Not measured", True, [row for row in rows if row.verdict.outcome == "not measured"]),
    ]
    return [(title, folded and bool(measured), members) for title, folded, members in groups if members]


def _part(section: Section, results: Path, cited: Mapping[str, Reference]) -> StudyPart:
    groups = tuple(run_groups(section, results))
    labels = {group.id: group.label for group in groups}
    claims = {claim.id: claim for claim in section.described.claims}
    rows = tuple(
        _row(verdict, cited.get(verdict.source), _figure(claims[verdict.id], section), section, labels)
        for verdict in section.verdicts
    )
    counts = Counter(row.verdict.outcome for row in rows)
    return StudyPart(
        section, rows, groups, section.described.runs_with, tuple((name, counts[name]) for name in OUTCOMES if counts[name])
    )


def _row(verdict: Verdict, reference: Reference | None, figure: str, section: Section, labels: Mapping[str, str]) -> ClaimRow:
    cited = "" if reference is None else cite(verdict.source, verdict.where)
    runs = tuple((run_id(section.study, arm), labels[run_id(section.study, arm)]) for arm in verdict.arms)
    link = "" if reference is None else reference.link
    return ClaimRow(verdict, section.title, cited, link, figure, runs)


def _figure(claim: Claim, section: Section) -> str:
    """The first figure that shows a compared quantity, else the first of the study."""
    quantities = {part.quantity for term in claim.compared() for part in term.parts()}
    drawn = {drawing.name for drawing in section.drawings}
    specs = {file_name(section.described, spec.name): spec for spec in figures_of(section.described, section.stored)}
    named = [name for name, spec in specs.items() if name in drawn]
    showing = [name for name in named if quantities & {column.quantity for column in specs[name].quantities}]
    return next(iter((*showing, *named)), "")
