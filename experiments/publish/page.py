"""The page: one self-contained HTML text of studies, their figures, tables and claims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from leadline.experiments.publish.style import Drawing
from leadline.experiments.publish.table import Table, is_numeric
from leadline.experiments.records.over_seeds import provenance
from leadline.experiments.records.record import Record

TEMPLATES = Path(__file__).with_name("templates")
# Cells of tables of claims that are marked, and the class of their mark.
OUTCOMES = {
    "holds": "holds",
    "equivalent": "holds",
    "fails": "fails",
    "undecided": "mixed",
    "not testable here": "none",
    "not measured": "none",
}


@dataclass(frozen=True)
class Section:
    """One study on the page: its name, title and question, what is shown of it, and the verdicts on its claims."""

    study: str
    title: str
    question: str
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    claims: Table | None = None


def inline_svg(drawing: Drawing) -> Markup:
    """The drawing for an HTML page: no prologue, metadata or namespaces, and identifiers of its own.

    Two figures of one page share matplotlib's identifiers otherwise, and a browser resolves them to the first.
    """
    text = drawing.svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{drawing.name}-", text)
    # The view box keeps the proportions; the drawing shrinks with the page and never grows beyond its own size.
    text = re.sub(r'(<svg[^>]*?)\swidth="([^"]*)"', r'\1 style="max-width: \2"', text, count=1)
    text = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1)
    return Markup(text)


def render(
    ledger: Table | None, sections: Sequence[Section], records: Sequence[Record], notes: Sequence[str], formats: Sequence[str]
) -> str:
    """The page as one HTML text: style and figures inline, no script, no address to fetch.

    Args:
        ledger: how many claims hold and fail, by study; None without claims.
        sections: the studies, in order.
        records: that all of it was made from.
        notes: remarks on the whole, such as records that were left out.
        formats: endings of the files of each table.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = inline_svg
    environment.tests["numeric_of"] = lambda column, table: is_numeric(table, column)
    return environment.get_template("page.html.j2").render(
        ledger=ledger,
        sections=sections,
        records=records,
        versions=sorted({f"{name} {version}" for record in records for name, version in record.versions.items()}),
        provenance=provenance(records),
        notes=notes,
        formats=formats,
        marked=OUTCOMES,
    )
