"""Tables, figures, page, ledger and references of a results folder, rebuilt from its records and studies alone."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from leadline.experiments.config.report import Column, FigureSpec, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.figures import figure
from leadline.experiments.publish.ledger import claims_table, ledger_table, totals_table, verdicts_table
from leadline.experiments.publish.shown import file_name
from leadline.experiments.publish.style import Drawing
from leadline.experiments.publish.table import Table, comma_separated, is_numeric, latex, markdown
from leadline.experiments.publish.tables import table
from leadline.experiments.records.json_file import reason
from leadline.experiments.records.over_seeds import current, provenance, summary
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.references import bibtex
from leadline.experiments.records.store import read_records, read_studies
from leadline.experiments.records.verdict import Verdict, verdicts
from leadline.experiments.runtime.errors import UserError

# These say how much was measured, and are no results.
COUNTS = ("windows", "documents", "answers", "train_loss")
MOST = 8
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
TABLES, FIGURES = "tables", "figures"
PRINTERS = {"md": markdown, "csv": comma_separated, "tex": latex}


@dataclass(frozen=True)
class Section:
    """One study on the page: its name, title and question, what is shown of it, and the verdicts on its claims."""

    study: str
    title: str
    question: str
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    claims: Table | None = None


@dataclass(frozen=True)
class Compiled:
    """What the records of a folder say, before it is written."""

    sections: tuple[Section, ...]  # of the page, one a study with records, by name
    verdicts: tuple[Verdict, ...]  # on every claim of these studies
    # tables of all claims: counts by study, statements with sources, statements with verdicts, counts; empty without claims
    ledger: tuple[Table, ...]
    records: tuple[Record, ...]  # that all of it is made from
    notes: tuple[str, ...]  # what was left out, and why
    references: str  # BibTeX of every source that is cited

    @property
    def tables(self) -> tuple[Table, ...]:
        return (*self.ledger, *(table for section in self.sections for table in section.tables))


@dataclass(frozen=True)
class Published:
    """What was written, what it says, and what is left out of it."""

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    verdicts: tuple[Verdict, ...]
    summary: list[dict[str, Any]]
    notes: tuple[str, ...]


def compiled(
    results: Path, digests: Mapping[tuple[str, str], str] | None = None, drawn: Collection[str] | None = None
) -> Compiled:
    """Reads the records and studies of a folder, makes tables and figures of them, and judges their claims.

    Args:
        results: the folder of the records.
        digests: (study, arm) -> digest, where an arm was recorded with more than one configuration and the one that was asked
            for is not the last; without it the last recorded one is shown, and a note names the others.
        drawn: names of the figures that are drawn, which takes longer than all the rest; None for all of them.

    Raises:
        UserError: if there is no record, or a file of the folder is damaged.
    """
    every, left_out = read_records(results)
    if not every:
        more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
        remedy = f"{left_out[0]}{more}" if left_out else "run a study first, as in leadline run configs/sinks.toml"
        raise UserError(f"{results}: there are no records; {remedy}")
    stored, others = current(every, digests)
    described = read_studies(results)
    names = sorted({entry.record.study for entry in stored})
    notes = [f"{name}: its study.json is missing, so it is not shown; run it again" for name in names if name not in described]
    studies = {name: described[name] for name in names if name in described}
    records = [entry.record for entry in stored if entry.record.study in studies]
    judged = verdicts(studies, records)
    return Compiled(
        tuple(_section(study, stored, judged, drawn) for study in studies.values()),
        tuple(judged),
        (ledger_table(judged), claims_table(judged), verdicts_table(judged), totals_table(judged)) if judged else (),
        tuple(records),
        (*left_out, *others, *notes),
        bibtex(sources(studies.values(), records)),
    )


def _section(study: Study, stored: Sequence[StoredRecord], judged: Sequence[Verdict], drawn: Collection[str] | None) -> Section:
    of_study = [entry for entry in stored if entry.record.study == study.study]
    first, *others = (table(spec, study, of_study) for spec in tables_of(study, of_study))
    specs = (spec for spec in figures_of(study, of_study) if drawn is None or file_name(study, spec.name) in drawn)
    drawings = (figure(spec, study, of_study) for spec in specs)
    claims = [verdict for verdict in judged if verdict.study == study.study]
    return Section(
        study.study,
        study.heading,
        study.question,
        (first, *(other for other in others if other.rows)),
        tuple(drawing for drawing in drawings if drawing is not None),
        claims_table(claims) if claims else None,
    )


def sources(studies: Iterable[Study], records: Iterable[Record]) -> list[str]:
    """The keys of the references that claims, published figures and measured quantities cite, each once."""
    keys = [QUANTITIES[e.quantity].source for r in records for e in r.measurements if e.quantity in QUANTITIES]
    for study in studies:
        keys += [claim.source for claim in study.claims]
        keys += [str(entry["source"]) for arm in study.arms.values() for entry in arm.get("published", ())]
        keys += [figure.source for spec in study.tables if isinstance(spec.published, tuple) for figure in spec.published]
    return sorted({key for key in keys if key})


def tables_of(study: Study, stored: Sequence[StoredRecord]) -> tuple[TableSpec, ...]:
    """The tables that the file of a study describes, or one of the first numbers that its records have as a whole."""
    if study.tables:
        return study.tables
    whole = {entry.quantity for item in stored for entry in item.record.measurements if not entry.dims}
    ordered = [name for name in QUANTITIES if name in whole] + sorted(whole - set(QUANTITIES))
    columns = [Column(quantity=name) for name in ordered if name not in COUNTS][:MOST]
    return (TableSpec(title=study.heading, columns=tuple(columns) or (Column(quantity="seconds"),)),)


def figures_of(study: Study, stored: Sequence[StoredRecord]) -> tuple[FigureSpec, ...]:
    """The figures that the file of a study describes; of models that were trained the loss over training."""
    if study.figures or not any(entry.record.steps for entry in stored):
        return study.figures
    caption = "Held-out loss over training: mean and range of the seeds."
    return (FigureSpec(kind="step", name="over_training", caption=caption, quantities=(Column(quantity="loss"),)),)


def report(results: Path, digests: Mapping[tuple[str, str], str] | None = None) -> Published:
    """Writes the page, every table in three forms, every figure in two, and `references.bib`.

    UserError if there is no record, a file of the folder is damaged, or it cannot be written.
    """
    contents = compiled(results, digests)
    page = results / "index.html"
    try:
        tables, figures = write_contents(contents, results, tuple(PRINTERS), ("png", "svg"))
        page.write_text(render(contents, tuple(PRINTERS)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{results}: cannot write the page ({reason(error)}); choose another folder with --results") from error
    return Published(page, tables, figures, contents.verdicts, summary(contents.records), contents.notes)


def write_contents(
    contents: Compiled, folder: Path, formats: Sequence[str], images: Sequence[str]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Writes the tables and figures, each in these forms, and `references.bib`. Returns the files of tables and of figures."""
    drawings = [drawing for section in contents.sections for drawing in section.drawings]
    tables = {folder / TABLES / f"{t.name}.{form}": PRINTERS[form](t).encode() for t in contents.tables for form in formats}
    figures = {folder / FIGURES / f"{drawing.name}.{form}": getattr(drawing, form) for drawing in drawings for form in images}
    for path in (folder / TABLES, folder / FIGURES):
        path.mkdir(parents=True, exist_ok=True)
    for path, content in {**tables, **figures, folder / "references.bib": contents.references.encode()}.items():
        path.write_bytes(content)
    return tuple(tables), tuple(figures)


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


def render(contents: Compiled, formats: Sequence[str]) -> str:
    """The page as one HTML text: style and figures inline, no script, no address to fetch.

    `formats` are the endings of the files of each table.
    """
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["svg"] = inline_svg
    environment.tests["numeric_of"] = lambda column, table: is_numeric(table, column)
    records = contents.records
    return environment.get_template("page.html.j2").render(
        ledger=contents.ledger[0] if contents.ledger else None,
        sections=contents.sections,
        records=records,
        versions=sorted({f"{name} {version}" for record in records for name, version in record.versions.items()}),
        provenance=provenance(records),
        notes=contents.notes,
        formats=formats,
        marked=OUTCOMES,
    )
