"""The page of findings in Markdown. Each study has a list of what it found, one or two figures and a table."""

from collections.abc import Collection

from leadline.experiments.config.claim import Claim
from leadline.experiments.publish.contents import FIGURES, TABLES, Contents, Section
from leadline.experiments.publish.findings import findings
from leadline.experiments.publish.style import Drawing
from leadline.experiments.publish.table import markdown, markdown_text
from leadline.experiments.records.captions import training
from leadline.experiments.records.references import cite
from leadline.experiments.records.verdict import Verdict

INTRODUCTION = """# Findings

Each section has the question of one study, the number of its claims by outcome, the first published claim that holds and the
first that fails (else the first of our own), the first table of the study and, where it has one, a figure or two. All of it is
computed from the records by `leadline publish`. Claims of studies that were not run stand in the first table alone. [How a
verdict is made](methods.md) defines the outcomes, and [Terms and quantities](quantities.md) defines each number. A verdict
speaks of its scale alone. Sections on models that are trained here give their size and training text.
"""


def findings_page(contents: Contents, shown: Collection[str], results: str) -> str:
    """The page of all studies.

    Args:
        contents: what the records say.
        shown: the names of the figures that the page shows.
        results: the folder of the published tables and figures, relative to the page.
    """
    tables = "".join(f"\n{markdown(table)}" for table in contents.ledger if table.name in ("ledger", "scales", "protocols"))
    tables += "".join(f"\n{_picture(drawing, results)}\n" for drawing in contents.pictures)
    links = f"[All verdicts]({results}/{TABLES}/claims.md) with sources, intervals and scales.\n"
    return "\n".join([INTRODUCTION + tables, links, *(_section(section, shown, results) for section in contents.sections)])


def _section(section: Section, shown: Collection[str], results: str) -> str:
    parts = [f"## {markdown_text(section.title)} (`{section.study}`)", summary(section)]
    for drawing in (drawing for drawing in section.drawings if drawing.name in shown):
        parts.append(_picture(drawing, results))
    parts.append(markdown(section.tables[0]).strip())
    run = f"`{section.described.runs_with}` runs it."
    parts.append(f"[All tables of this study]({results}/{TABLES}/{section.study}.md). {run}\n")
    return "\n\n".join(parts)


def _origin(verdict: Verdict, claim: Claim) -> str:
    """`Gu et al. 2025, Table 10: sink rate 18.18 % → 74.11 %, shown at 60M parameters`: who found what, and at which scale."""
    if verdict.own:
        return markdown_text(verdict.published or "our own")
    scale = f"shown at {claim.shown_at}" if claim.shown_at else ""
    figure_and_scale = ", ".join(part for part in (verdict.published, scale) if part)
    return markdown_text(": ".join(part for part in (cite(verdict.source, verdict.where), figure_and_scale) if part))


def _picture(drawing: Drawing, results: str) -> str:
    caption = markdown_text(drawing.caption)
    return f"![{caption}]({results}/{FIGURES}/{drawing.name}.png)\n*{caption}*"


def summary(section: Section) -> str:
    """The question of a study, the outcomes of its claims, what was trained, and the first claim that holds and that fails.

    Published claims come before those of our own.
    """
    claims = {(section.study, claim.id): claim for claim in section.described.claims}
    records = [entry.record for entry in section.stored]
    items = [finding.text for finding in findings(section.verdicts, claims, records) if not finding.lead]
    if any(record.steps for record in records):
        items.append(f"Trained: {markdown_text(training(records))}.")
    for outcome in ("holds", "fails"):
        quoted = sorted(
            (verdict for verdict in section.verdicts if verdict.outcome == outcome), key=lambda verdict: verdict.own
        )
        for verdict in quoted[:1]:
            text = markdown_text(f"{verdict.statement} Measured: {verdict.measured}.")
            items.append(f"**{outcome.capitalize()}** ({_origin(verdict, claims[section.study, verdict.id])}): {text}")
    question = [f"*{markdown_text(section.question)}*"] if section.question else []
    return "\n\n".join([*question, "\n".join(f"- {item}" for item in items)]).rstrip()
