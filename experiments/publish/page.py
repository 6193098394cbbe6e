"""The page and the files beside it: `index.html`, `tables/` and `figures/`, rebuilt from what records say."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.errors import UserError
from experiments.evidence import OUTCOMES, Verdict
from experiments.publish.figures import Drawing, save
from experiments.publish.summary import Summary, provenance, summary
from experiments.publish.table import Table, cell_text, comma_separated, is_numeric, latex, markdown
from experiments.record import Record

TEMPLATES = Path(__file__).with_name("templates")
PRINTERS = {"md": markdown, "csv": comma_separated, "tex": latex}


@dataclass(frozen=True)
class Section:
    """One study on the page: its question, and what is shown of it, in order."""

    study: str
    question: str
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class Published:
    """What was written, and what it says."""

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    verdicts: tuple[Verdict, ...]
    summary: Summary


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


def render(sections: Sequence[Section], verdicts: Sequence[Verdict], records: Sequence[Record], notes: Sequence[str]) -> str:
    """The page as one self-contained HTML text: style and figures inline, no script, no address to fetch."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell_text, "svg": inline_svg}
    environment.tests["numeric_of"] = lambda column, table: is_numeric(table, column)
    counts = {outcome: sum(row.verdict == outcome for row in verdicts) for outcome in OUTCOMES}
    return environment.get_template("page.html.j2").render(
        sections=sections,
        verdicts=verdicts,
        counts={outcome: n for outcome, n in counts.items() if n},
        records=records,
        versions=sorted({f"{name} {version}" for record in records for name, version in record.versions.items()}),
        provenance=provenance(records) if records else (),
        notes=notes,
        formats=tuple(PRINTERS),
    )


def publish(
    results: Path,
    sections: Sequence[Section],
    verdicts: Sequence[Verdict],
    records: Sequence[Record],
    *,
    extra_tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
) -> Published:
    """Writes the page, every table in three forms and every figure in two.

    Args:
        results: the folder of the records; the page is `index.html` in it.
        sections: the studies to show, in order.
        verdicts: the ledger's rows.
        records: every record that the sections were made from.
        extra_tables: tables that are written beside the others and not shown as a section: the ledger.
        notes: remarks on the whole, such as records that were left out.

    Raises:
        UserError: if the folder cannot be written.
    """
    page, folders = results / "index.html", {name: results / name for name in ("tables", "figures")}
    try:
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        tables: list[Path] = []
        for table in (*extra_tables, *(table for section in sections for table in section.tables)):
            for ending, printer in PRINTERS.items():
                path = folders["tables"] / f"{table.name}.{ending}"
                path.write_text(printer(table), encoding="utf-8", newline="")
                tables.append(path)
        drawings = [drawing for section in sections for drawing in section.drawings]
        figures = [path for drawing in drawings for path in save(drawing, folders["figures"])]
        page.write_text(render(sections, verdicts, records, notes), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{results}: cannot write the page ({reason}); choose another folder with --results") from error
    return Published(page, tuple(tables), tuple(figures), tuple(verdicts), summary(records))
