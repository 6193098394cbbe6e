"""Writes tables, figures, page and references of a results folder, rebuilt from its records and studies alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.experiments.publish.contents import FIGURES, IMAGES, PRINTERS, TABLES, Contents, contents_of
from leadline.experiments.publish.page import page_text
from leadline.experiments.records.json_file import reason, write_whole
from leadline.experiments.records.over_seeds import summary
from leadline.experiments.records.verdict import Verdict
from leadline.experiments.runtime.errors import UserError


@dataclass(frozen=True)
class Report:
    """What was written, what it says, and what is left out of it."""

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    verdicts: tuple[Verdict, ...]
    summary: list[dict[str, Any]]
    notes: tuple[str, ...]


def report(results: Path, digests: Mapping[tuple[str, str], str] | None = None, *, inline: bool = False) -> Report:
    """Writes the page, every table in three forms, every figure in three, and `references.bib`.

    Args:
        results: the folder of the records.
        digests: as `contents_of` takes them.
        inline: whether the page holds its pictures itself; otherwise it shows the files beside it.

    Raises:
        UserError: if there is no record, a file of the folder is damaged, or it cannot be written.
    """
    contents = contents_of(results, digests)
    if not contents.records:
        raise UserError("\n".join(contents.notes) or f"{results}: there are no records")
    page = results / "index.html"
    try:
        tables, figures = write_contents(contents, results, tuple(PRINTERS), IMAGES)
        write_whole(page, page_text(contents, results, inline=inline).encode())
    except OSError as error:
        raise UserError(f"{results}: cannot write the page ({reason(error)}); check the folder and its permissions") from error
    return Report(page, tables, figures, contents.verdicts, summary(contents.records), contents.notes)


def write_contents(
    contents: Contents, folder: Path, formats: Sequence[str], images: Sequence[str]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Writes the tables and figures, each in these forms, and `references.bib`. Returns the files of tables and of figures."""
    tables = {folder / TABLES / f"{t.name}.{form}": PRINTERS[form](t).encode() for t in contents.tables for form in formats}
    figures = {
        folder / FIGURES / f"{drawing.name}.{form}": getattr(drawing, form) for drawing in contents.drawings for form in images
    }
    for path in (folder / TABLES, folder / FIGURES):
        path.mkdir(parents=True, exist_ok=True)
    for path, content in {**tables, **figures, folder / "references.bib": contents.references.encode()}.items():
        write_whole(path, content)
    return tuple(tables), tuple(figures)
