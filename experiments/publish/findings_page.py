"""What each study found, in Markdown: a paragraph, a figure and a table, all from records."""

from collections import Counter
from collections.abc import Collection, Sequence

from leadline.experiments.publish.report import FIGURES, TABLES, Compiled, Section
from leadline.experiments.publish.table import markdown, markdown_text
from leadline.experiments.records.evidence import OUTCOMES
from leadline.experiments.records.references import cite
from leadline.experiments.records.verdict import Verdict

INTRODUCTION = """# Findings

Each section answers the question of one study with the verdicts on its statements, a figure and a table. All of it is computed
from the records by `leadline publish`. A statement *holds* (*fails*) where the 95 % interval of its margin over the seeds lies
above (below) zero, is *equivalent* where that interval lies within a stated difference of zero, and is *undecided* otherwise.
It is *not testable here* where a precondition is not met, such as a sink in the baseline, and *not measured* without records of
the configuration that it speaks of. The models are tiny, and a verdict speaks of their scale alone.
"""


def findings_page(contents: Compiled, shown: Collection[str], results: str) -> str:
    """The page of all studies.

    Args:
        contents: what the records say.
        shown: the names of the figures that the page shows, one per study.
        results: the folder of the published tables and figures, relative to the page.
    """
    tables = "".join(f"\n{markdown(table)}" for table in contents.ledger[:1])
    links = f"[All verdicts]({results}/{TABLES}/claims.md) with sources, intervals and scales.\n"
    sections = (_section(section, contents.verdicts, shown, results) for section in contents.sections)
    return "\n".join([INTRODUCTION + tables, links, *sections])


def _section(section: Section, verdicts: Sequence[Verdict], shown: Collection[str], results: str) -> str:
    judged = [verdict for verdict in verdicts if verdict.study == section.study]
    parts = [f"## {markdown_text(section.title)}", summary(section.question, judged)]
    for drawing in (drawing for drawing in section.drawings if drawing.name in shown):
        parts.append(
            f"![{markdown_text(drawing.caption)}]({results}/{FIGURES}/{drawing.name}.png)\n*{markdown_text(drawing.caption)}*"
        )
    parts.append(markdown(section.tables[0]).strip())
    parts.append(f"[All tables of this study]({results}/{TABLES}/{section.study}.md)\n")
    return "\n\n".join(parts)


def summary(question: str, judged: Sequence[Verdict]) -> str:
    """The question of a study, how many of its statements have each outcome, and the first that holds and that fails.

    Published statements come before those of our own.
    """
    sentences = [f"*{markdown_text(question)}*"] if question else []
    for kind, is_own in (("published", False), ("own", True)):
        counts = Counter(verdict.outcome for verdict in judged if verdict.own == is_own)
        if counts:
            counted = ", ".join(
                f"{counts[outcome]} {_said(outcome, counts[outcome])}" for outcome in OUTCOMES if counts[outcome]
            )
            sentences.append(f"{counts.total()} {kind} statement{'s' if counts.total() > 1 else ''}: {counted}.")
    for outcome in ("holds", "fails"):
        quoted = sorted((verdict for verdict in judged if verdict.outcome == outcome), key=lambda verdict: verdict.own)
        for verdict in quoted[:1]:
            source = "our own" if verdict.own else ", ".join(part for part in (cite(verdict.source), verdict.where) if part)
            text = markdown_text(f"{verdict.statement} Measured: {verdict.measured}.")
            sentences.append(f"**{outcome.capitalize()}** ({source}): {text}")
    return " ".join(sentences)


def _said(outcome: str, count: int) -> str:
    """`1 holds`, `2 hold`."""
    return outcome.removesuffix("s") if count > 1 and outcome in ("holds", "fails") else outcome
