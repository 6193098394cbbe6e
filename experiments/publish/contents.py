"""What the records and studies of a results folder say, before it is written: tables, figures, verdicts, references."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.experiments.config.report import Column, FigureSpec, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.figures import figure
from leadline.experiments.publish.forest import FOREST, forests
from leadline.experiments.publish.ledger import (
    claims_table,
    ledger_table,
    protocols_table,
    scales_table,
    totals_table,
)
from leadline.experiments.publish.multiverse import MULTIVERSE, multiverse
from leadline.experiments.publish.shown import file_name
from leadline.experiments.publish.style import Drawing
from leadline.experiments.publish.table import Table, comma_separated, latex, markdown
from leadline.experiments.publish.tables import table
from leadline.experiments.records.over_seeds import current
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.references import bibtex
from leadline.experiments.records.store import existing_records, read_records, read_studies
from leadline.experiments.records.verdict import Verdict, verdicts

# These say how much was measured, and are no results.
COUNTS = ("windows", "documents", "answers", "train_loss")
MOST = 8
# Arms of a figure that nobody asked for.
MOST_LINES = 40
TABLES, FIGURES = "tables", "figures"  # the folders of what is written
PRINTERS = {"md": markdown, "csv": comma_separated, "tex": latex}  # the forms of a table, by the ending of its file
IMAGES = ("svg", "png", "pdf")  # the forms of a figure


@dataclass(frozen=True)
class Section:
    """One study: its description and records, and the tables, figures and verdicts that are made of them."""

    described: Study
    stored: tuple[StoredRecord, ...]
    tables: tuple[Table, ...]
    drawings: tuple[Drawing, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def study(self) -> str:
        return self.described.study

    @property
    def title(self) -> str:
        return self.described.heading

    @property
    def question(self) -> str:
        return self.described.question


@dataclass(frozen=True)
class Contents:
    """What the records of a folder say, before it is written."""

    sections: tuple[Section, ...]  # of the page, one a study with records, by name
    verdicts: tuple[Verdict, ...]  # on every claim of these studies, and of those that are planned
    # tables of all claims: counts by study, statements with sources, statements with verdicts, counts, and where there are any,
    # statements with a column a scale and statements with a column a protocol; empty without claims
    ledger: tuple[Table, ...]
    pictures: tuple[Drawing, ...]  # of all claims: their intervals, and their outcomes by protocol, as far as there are any
    records: tuple[Record, ...]  # that all of it is made from
    notes: tuple[str, ...]  # what was left out, and why
    references: str  # BibTeX of every source that is cited

    @property
    def tables(self) -> tuple[Table, ...]:
        return (*self.ledger, *(table for section in self.sections for table in section.tables))

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        of_sections = (drawing for section in self.sections for drawing in section.drawings)
        return (*of_sections, *self.pictures)


def contents_of(
    results: Path,
    digests: Mapping[tuple[str, str], str] | None = None,
    drawn: Collection[str] | None = None,
    planned: Sequence[Study] = (),
) -> Contents:
    """Reads the records and studies of a folder, makes tables and figures of them, and judges their claims.

    Args:
        results: the folder of the records.
        digests: (study, arm) -> digest, where an arm was recorded with more than one configuration and the one that was asked
            for is not the last; without it the last recorded one is shown, and a note names the others.
        drawn: names of the figures that are drawn, which takes longer than all the rest; None for all of them.
        planned: studies whose claims are listed as not measured, unless they have records.

    Raises:
        UserError: if there is no record, or a file of the folder is damaged.
    """
    every, left_out = existing_records(results)
    stored, others = current(every, digests)
    described = read_studies(results)
    names = sorted({entry.record.study for entry in stored})
    notes = [f"{name}: its study.json is missing, so it is not shown; run it again" for name in names if name not in described]
    studies = {name: described[name] for name in names if name in described}
    records = [entry.record for entry in stored if entry.record.study in studies]
    listed = {study.study: study for study in planned} | studies
    judged = verdicts(listed, records)
    sections = tuple(_section(study, stored, judged, drawn) for study in studies.values())
    notes += [note for section in sections for note in _without_records(section, drawn)]
    return Contents(
        sections,
        tuple(judged),
        _ledger(judged) if judged else (),
        tuple(_pictures(judged, drawn)),
        tuple(records),
        (*left_out, *others, *notes),
        bibtex(sources(listed.values(), records)),
    )


def first_table(results: Path, name: str, digests: Mapping[tuple[str, str], str] | None = None) -> Table:
    """The first table of one study; `digests` as in `contents_of`. UserError where its description is damaged."""
    stored, _ = current(read_records(results, name)[0], digests)
    study = read_studies(results)[name]
    return table(tables_of(study, stored)[0], study, stored)


def _pictures(judged: Sequence[Verdict], drawn: Collection[str] | None) -> Iterator[Drawing]:
    if drawn is None or FOREST in drawn:
        yield from forests(judged)
    if (drawn is None or MULTIVERSE in drawn) and (drawing := multiverse(judged)) is not None:
        yield drawing


def _ledger(judged: Sequence[Verdict]) -> tuple[Table, ...]:
    tables = (ledger_table(judged), claims_table(judged), totals_table(judged))
    return (*tables, *(other for other in (scales_table(judged), protocols_table(judged)) if other.rows))


def _section(study: Study, stored: Sequence[StoredRecord], judged: Sequence[Verdict], drawn: Collection[str] | None) -> Section:
    of_study = tuple(entry for entry in stored if entry.record.study == study.study)
    first, *others = (table(spec, study, of_study) for spec in tables_of(study, of_study))
    drawings = (figure(spec, study, of_study) for spec in figures_of(study, of_study) if _drawn(study, spec, drawn))
    return Section(
        study,
        of_study,
        (first, *(other for other in others if other.rows)),
        tuple(drawing for drawing in drawings if drawing is not None),
        tuple(verdict for verdict in judged if verdict.study == study.study),
    )


def _drawn(study: Study, spec: FigureSpec, drawn: Collection[str] | None) -> bool:
    return drawn is None or file_name(study, spec.name) in drawn


def _without_records(section: Section, drawn: Collection[str] | None) -> Iterator[str]:
    """A note for each figure that no record of its study has anything for."""
    names = {drawing.name for drawing in section.drawings}
    for spec in figures_of(section.described, section.stored):
        if _drawn(section.described, spec, drawn) and file_name(section.described, spec.name) not in names:
            yield f"{section.study}: figure {spec.name!r} is not drawn: no record has what it shows"


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
    """The figures that the file of a study describes; of models that were trained the loss over training, if
    their lines can be told apart."""
    trained = {entry.record.arm for entry in stored if entry.record.steps}
    if study.figures or not 0 < len(trained) <= MOST_LINES:
        return study.figures
    title = "How does the held-out loss fall during training?"
    caption = "Held-out loss of every arm at each measured step."
    return (FigureSpec(kind="step", name="over_training", title=title, caption=caption, quantities=(Column(quantity="loss"),)),)
