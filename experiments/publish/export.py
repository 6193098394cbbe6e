"""The published form of results: packed records, tables, figures, a page of findings, and the tables in a text."""

import io
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from leadline.experiments.config.claim import Term
from leadline.experiments.config.report import FigureSpec
from leadline.experiments.config.study import RESERVED, Study
from leadline.experiments.publish.contents import FIGURES, TABLES, contents_of
from leadline.experiments.publish.figures import arrays_read
from leadline.experiments.publish.findings_page import findings_page
from leadline.experiments.publish.forest import FOREST
from leadline.experiments.publish.multiverse import MULTIVERSE
from leadline.experiments.publish.report import write_contents
from leadline.experiments.publish.shown import file_name
from leadline.experiments.publish.table import markdown
from leadline.experiments.records.json_file import reason, seal, unseal, write_whole
from leadline.experiments.records.measurement import Dim, resolve
from leadline.experiments.records.packed import PACKED, PACKED_ARRAYS, read_packed, write_packed
from leadline.experiments.records.portable import portable
from leadline.experiments.records.protocols import PROTOCOL_DIMS
from leadline.experiments.records.record import StoredRecord
from leadline.experiments.records.store import STUDY, existing_records, read_records, read_studies
from leadline.experiments.runtime.errors import UserError

MAP = "attention_map"  # the largest of all arrays
MOST_BYTES, MOST_FILES = 9 * 2**20, 240  # of what a clone should have to download
BLOCK = re.compile(r"(<!-- leadline table (?P<name>\w+) -->\n).*?(<!-- leadline end -->)", re.DOTALL)


@dataclass(frozen=True)
class Exported:
    """What was packed, and how large the folder is now."""

    studies: tuple[str, ...]
    files: int
    bytes: int
    notes: tuple[str, ...]


def export(
    results: Path, into: Path, text: Path | None = None, page: Path | None = None, planned: Sequence[Study] = ()
) -> Exported:
    """Packs every study of a results folder into another one, rebuilds tables and figures there, and fills a text and a page.

    Records that were published before stay unless their study is packed anew; nothing is packed where both folders are the
    same. Of arrays only those are kept that a figure of their study reads, of figures only those that findings show and
    those that the text links to.

    Args:
        results: the folder of the records.
        into: the folder that is published.
        text: a Markdown file, as README.md, whose blocks of tables are filled; None: none.
        page: where what each study found is written, as Markdown; None: nowhere.
        planned: studies whose claims are listed as not measured, unless they have records.

    Raises:
        UserError: if there are no records, or a file cannot be read or written.
    """
    filled = "" if text is None else text_with_blocks(text)
    records, notes = existing_records(results)
    studies = read_studies(results)
    recorded = {entry.record.study for entry in records}
    names = sorted(recorded & set(studies))
    notes += [
        f"{name}: {STUDY} is missing, so it is not packed; run the study again" for name in sorted(recorded - set(studies))
    ]
    if not names:
        raise UserError("\n".join(notes))
    for name in names if results.resolve() != into.resolve() else ():
        check_kept(results, name, into)
    for name in names if results.resolve() != into.resolve() else ():
        study = studies[name]
        read = [part for claim in study.claims for part in claim.parts()]
        notes += pack(results, name, into, arrays_read(study), read)
    shown = {file_name(study, spec.name) for study in read_studies(into).values() for spec in _shown(study)}
    named = set(re.findall(rf"{FIGURES}/([\w.=+-]+)\.png", filled))
    contents = contents_of(into, drawn=shown | {FOREST, MULTIVERSE} | named, planned=planned)
    try:
        stale = set(_written_before(into, [study.study for study in read_studies(into).values()]))
        for path in write_contents(contents, into, (), ("png",))[1]:
            write_whole(path, with_palette(path.read_bytes()))
            stale.discard(path)
        of_study = {section.study: section.tables for section in contents.sections}
        for name, tables in ({table.name: (table,) for table in contents.ledger} | of_study).items():
            path = into / TABLES / f"{name}.md"
            write_whole(path, "\n".join(map(markdown, tables)).encode())
            stale.discard(path)
        for path in stale:
            path.unlink()
        if page is not None:
            write_whole(page, findings_page(contents, shown, Path(os.path.relpath(into, page.parent)).as_posix()).encode())
    except OSError as error:
        raise UserError(f"{into}: cannot write the published form ({reason(error)})") from error
    if text is not None:
        rewrite(text, {table.name: markdown(table) for table in contents.tables})
    files = [path for path in into.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if size > MOST_BYTES or len(files) > MOST_FILES:
        most = f"{MOST_FILES} files or {MOST_BYTES:,} bytes"
        notes.append(f"{into}: more than {most} make a repository slow to clone; leave out figures or studies")
    return Exported(tuple(names), len(files), size, tuple(dict.fromkeys((*notes, *contents.notes))))


def _written_before(into: Path, studies: Sequence[str]) -> list[Path]:
    """Tables and figures of these studies and of the ledger; other files of the two folders are not ours."""
    ours = re.compile("(" + "|".join(map(re.escape, (*studies, *RESERVED))) + r")(_[\w.=+-]*)?\.(md|png)")
    return [path for folder in (TABLES, FIGURES) for path in into.glob(f"{folder}/*") if ours.fullmatch(path.name)]


def _shown(study: Study) -> list[FigureSpec]:
    """The figures of a study that findings show: the first that is not about training, if there is any, and lines of seeds."""
    answer = next((spec for spec in study.figures if spec.kind != "step"), study.figures[0] if study.figures else None)
    return [spec for spec in study.figures if spec is answer or spec.each_seed]


def with_palette(png: bytes) -> bytes:
    """The picture in 256 colours, in about a third of its bytes.

    They begin as those that lie farthest apart: by the median cut a colour of few pixels, as of a short line, would become
    another one. Each then moves to the mean of the pixels that are nearest to it, so that frequent colours are kept.
    """
    picture, colours = io.BytesIO(), Image.open(io.BytesIO(png)).convert("RGB")
    farthest = colours.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    farthest.save(picture, "PNG", optimize=True)
    return picture.getvalue()


def pack(results: Path, study: str, into: Path, quantities: Collection[str], read: Sequence[Term] = ()) -> list[str]:
    """Packs the records of a study, their curves and its description into `into/STUDY`, and says which records are left out.

    Arrays are kept of some `quantities` only, and of the terms that claims `read` what was measured without groups of text.
    UserError if there is no record, or the folder is the one that is packed, has records that would be lost (`check_kept`), or
    cannot be written.
    """
    if into.resolve() == results.resolve():
        raise UserError(f"{into}: records are packed into another folder than the one that they are in")
    records, notes = read_records(results, study)
    if not records:
        raise UserError(f"{results / study}: there are no records to pack")
    check_kept(results, study, into)
    first: dict[tuple[str, str], int] = {}  # of each arm the lowest seed that did not diverge
    for record in sorted((entry.record for entry in records if entry.record.status == "finished"), key=lambda r: r.seed):
        first.setdefault((record.arm, record.arm_hash), record.seed)
    mapped = {(*arm, seed) for arm, seed in first.items()}
    records = [_with_left_out_of(entry, read) for entry in records]
    try:
        write_packed(
            into / study,
            [entry if _run_of(entry) in mapped else _without_maps(entry) for entry in records],
            quantities,
        )
        if (results / study / STUDY).exists():
            write_whole(into / study / STUDY, seal(portable(unseal((results / study / STUDY).read_bytes()))))
    except OSError as error:
        raise UserError(f"{into / study}: cannot write the records ({reason(error)})") from error
    return notes


def check_kept(results: Path, study: str, into: Path) -> None:
    """Raises UserError where `into/STUDY` has records that `results` lacks, or that cannot be read: packing would lose them."""
    packed = into / study
    if not (packed / PACKED).exists():
        return
    remedy = f"remove {packed} to publish without"
    stored, notes = read_packed(packed)
    if notes:
        raise UserError(f"{notes[0]}; or {remedy}")
    kept = {(entry.record.arm, entry.record.arm_hash, entry.record.seed) for entry in stored}
    records = [entry.record for entry in read_records(results, study)[0]]
    lost = sorted(kept - {(record.arm, record.arm_hash, record.seed) for record in records})
    if lost:
        missing = f"{packed}: {len(lost)} of its records are not in {results}, such as that of {lost[0][0]}, seed {lost[0][2]}"
        raise UserError(f"{missing}; copy {PACKED} and {PACKED_ARRAYS} into {results / study} to keep them, or {remedy}")


def _with_left_out_of(stored: StoredRecord, read: Sequence[Term]) -> StoredRecord:
    """The record whose measurements without groups of documents are those of these terms, by every protocol."""
    resolved = [(term.quantity, resolve(stored.record, term.at)) for term in read]
    wanted = [(quantity, _by_any_protocol(dims)) for quantity, dims in resolved if dims is not None]
    kept = tuple(entry for entry in stored.record.left_out if (entry.quantity, _by_any_protocol(entry.dims)) in wanted)
    return replace(stored, record=stored.record.model_copy(update={"left_out": kept}))


def _by_any_protocol(dims: Mapping[str, Dim]) -> dict[str, Dim]:
    return {name: value for name, value in dims.items() if name not in PROTOCOL_DIMS}


def _run_of(stored: StoredRecord) -> tuple[str, str, int]:
    return stored.record.arm, stored.record.arm_hash, stored.record.seed


def _without_maps(stored: StoredRecord) -> StoredRecord:
    """The record without its attention maps, which figures show of the first finished seed of an arm alone."""
    return replace(stored, arrays=lambda: {key: array for key, array in stored.arrays().items() if key.quantity != MAP})


def with_tables(text: str, tables: Mapping[str, str], where: str = "the text") -> str:
    """`text` with each block between `<!-- leadline table NAME -->` and `<!-- leadline end -->` replaced by that table.

    Raises UserError for a block whose table there is not.
    """
    for name in (match["name"] for match in BLOCK.finditer(text)):
        if name not in tables:
            raise UserError(f"{where}: there is no table {name!r}; there are {', '.join(sorted(tables))}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{tables[match['name']].strip()}\n\n{match[3]}", text)


def rewrite(path: Path, tables: Mapping[str, str]) -> None:
    """`with_tables` on a file, replaced whole or not at all."""
    write_whole(path, with_tables(text_with_blocks(path), tables, str(path)).encode())


def text_with_blocks(path: Path) -> str:
    """The text of a file that has a block to fill. UserError where it has none, or cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; convert it to UTF-8") from error
    if BLOCK.search(text) is None:
        raise UserError(f"{path}: no block '<!-- leadline table NAME -->' … '<!-- leadline end -->' to fill")
    return text
