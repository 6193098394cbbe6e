"""Records in their folders: writing, reading, and what is refused.

`results/STUDY/ARM-HASH/sSEED/` holds `curves.jsonl` (`Curve.rows`), `arrays.npz` (what is measured by layer, head or
position) and `record.json`, which is written last: a folder without it is a run that did not end. The record holds
sums of its own content and of both other files, and must lie in the folder that it names. `results/STUDY/study.json`
describes the study. A study may also be packed into one file (leadline.experiments.records.packed).
"""

import io
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from leadline.experiments.config.study import Study
from leadline.experiments.records.json_file import json_lines, parse_lines, reason, seal, sha256, unseal, write_claimed
from leadline.experiments.records.measurement import WITHOUT, Point, reading
from leadline.experiments.records.packed import PACKED, NewerSchema, read_packed, validated
from leadline.experiments.records.portable import portable, portable_record
from leadline.experiments.records.provenance import non_default_settings
from leadline.experiments.records.quantities import QUANTITIES, Quantity
from leadline.experiments.records.record import NO_CURVE, ArrayEntry, Curve, Record, StoredRecord, Sums
from leadline.experiments.runtime.errors import UserError

RECORD, CURVES, ARRAYS, STUDY = "record.json", "curves.jsonl", "arrays.npz", "study.json"


def record_folder(results: Path, study: str, arm: str, arm_hash: str, seed: int) -> Path:
    """`results/STUDY/ARM-HASH/sSEED`.

    UserError if a name cannot be a folder of its own (empty, hidden, or with a separator in it).
    """
    for what, name in (("study", study), ("arm", arm)):
        if not name or name.startswith(".") or re.search(r"[/\\\0]", name):
            raise UserError(f"{what} {name!r} cannot name a folder: leave out slashes and a leading dot")
    return results / study / f"{arm}-{arm_hash}" / f"s{seed}"


def write_record(
    folder: Path,
    record: Record,
    curve: Curve | None,
    point: Point,
    quantities: Mapping[str, Quantity] = QUANTITIES,
    check: Callable[[], None] = lambda: None,
) -> StoredRecord:
    """Writes the curve and the arrays of a point, then the record with its sums, each file atomically.

    Args:
        folder: as `record_folder` names it.
        record: without `arrays`, `sums` and `sum`, which are added here.
        curve: None where nothing was measured along the way.
        point: arrays by reading. Numbers among them are in `record.measurements` only, and what is without a part of the data
            in `record.left_out`.
        quantities: the table that names the axes of the arrays.
        check: is called before the first file takes its name; what it raises leaves the folder as it was.

    Returns:
        The record as it was written.

    Raises:
        ValueError: if an array has other axes than its quantity, or holds Python objects.
        UserError: if the folder cannot be written.
    """
    whole = {key: array for key, array in sorted(point.items(), key=str) if WITHOUT not in dict(key.dims)}
    arrays = {key: np.asarray(array) for key, array in whole.items() if np.ndim(array)}
    entries = []
    for number, (key, array) in enumerate(arrays.items()):
        axes = quantities[key.quantity].axes
        if len(axes) != array.ndim:
            raise ValueError(f"{key}: an array of {array.ndim} axes, and the quantity has {list(axes)}")
        entries.append(ArrayEntry(key=f"{key.quantity}-{number}", quantity=key.quantity, dims=dict(key.dims), axes=axes))
    archive = io.BytesIO()
    names = [entry.key for entry in entries]
    np.savez_compressed(archive, allow_pickle=False, **dict(zip(names, arrays.values(), strict=True)))  # pyright: ignore[reportArgumentType]  # names are no parameter's
    files = {CURVES: json_lines((curve or NO_CURVE).rows()), ARRAYS: archive.getvalue()}
    sums = Sums(curves=sha256(files[CURVES]), arrays=sha256(files[ARRAYS]))
    complete = portable_record(record).model_copy(update={"arrays": tuple(entries), "sums": sums})
    content = seal(complete.model_dump(mode="json"))
    _write(folder, {**files, RECORD: content}, check)
    return _stored(folder, Record.model_validate(unseal(content)))


def _write(folder: Path, files: Mapping[str, bytes], check: Callable[[], None] = lambda: None) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_claimed({folder / name: data for name, data in files.items()}, check)
    except OSError as error:
        check()  # whoever has taken over may have removed the folder meanwhile
        raise UserError(f"{folder}: cannot write results ({reason(error)}); choose another folder with --results") from error


def _stored(folder: Path, record: Record) -> StoredRecord:
    """The record of a folder, whose curve and arrays are refused where they are not those that were written."""

    def curve() -> Curve:
        with _intact(folder / CURVES):
            return Curve.of_rows(parse_lines(_checked(folder / CURVES, record)))

    def arrays() -> Point:
        with _intact(folder / ARRAYS), np.load(io.BytesIO(_checked(folder / ARRAYS, record)), allow_pickle=False) as archive:
            return {reading(entry.quantity, **entry.dims): archive[entry.key] for entry in record.arrays}

    return StoredRecord(record, curve, arrays)


@contextmanager
def _intact(path: Path, remedy: str = "") -> Iterator[None]:
    """UserError naming the file and what to do, for whatever is wrong with what is read of it."""
    try:
        yield
    except NewerSchema as error:
        raise UserError(f"{path}: {error}") from error
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        unreadable = isinstance(error, OSError) and (path.name == RECORD or not isinstance(error, FileNotFoundError))
        again = remedy or f"delete {path.parent} and run the study again"
        raise UserError(
            f"{path}: {reason(error)}; {'check the folder and its permissions' if unreadable else again}"
        ) from error


def _checked(path: Path, record: Record) -> bytes:
    """The bytes of a file beside a record. ValueError if they are not those that were written."""
    data = path.read_bytes()
    if record.sums is None or sha256(data) != {CURVES: record.sums.curves, ARRAYS: record.sums.arrays}[path.name]:
        raise ValueError("it is not the file that was written")
    return data


def read_record(folder: Path) -> Record:
    """The record of one folder, whatever the folder is called; the files beside it are those that the record was written with.

    UserError naming the file and what to do, if it is missing or damaged, or of another schema.
    """
    with _intact(folder / RECORD):
        record = validated(unseal((folder / RECORD).read_bytes()))
    for name in (CURVES, ARRAYS):
        with _intact(folder / name):
            _checked(folder / name, record)
    return record


def read_stored(folder: Path) -> StoredRecord:
    """The record of one folder with what lies beside it. UserError as `read_record`."""
    return _stored(folder, read_record(folder))


def read_records(results: Path, study: str | None = None) -> tuple[list[StoredRecord], list[str]]:
    """Every record below a results folder, in folders and packed, sorted by study, arm, hash and seed.

    Args:
        results: the folder; one that does not exist has no records.
        study: only the records of this study.

    Returns:
        The records, and a line for each that is left out: damaged, of another schema, not in the folder that it names, or there
        twice.
    """
    records: list[StoredRecord] = []
    notes: list[str] = []
    of_study = study or "*"
    for path in sorted(results.glob(f"{of_study}/{PACKED}")):
        packed, left_out = read_packed(path.parent)
        records += packed
        notes += left_out
    for path in sorted(results.glob(f"{of_study}/*/s*/{RECORD}")):
        try:
            records.append(_in_its_place(results, path.parent))
        except UserError as error:
            notes.append(f"left out: {error}")
    distinct: dict[tuple[str, str, str, int], StoredRecord] = {}
    for stored in records:
        record = stored.record
        key = record.study, record.arm, record.arm_hash, record.seed
        if distinct.setdefault(key, stored) is not stored:
            place = record_folder(results, *key)
            notes.append(f"left out: {place}: this record is in {results / record.study / PACKED} too; delete one of them")
    return [distinct[key] for key in sorted(distinct)], notes


def existing_records(results: Path) -> tuple[list[StoredRecord], list[str]]:
    """`read_records` of a results folder. UserError if it has none, with what was left out."""
    records, left_out = read_records(results)
    if not records:
        more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
        remedy = f"{left_out[0]}{more}" if left_out else "run a study first, as in leadline run configs/sinks.toml"
        raise UserError(f"{results}: there are no records; {remedy}")
    return records, left_out


def packed_runs(results: Path, study: str) -> set[tuple[str, str, int]]:
    """Arm, hash and seed of each record that is packed for a study; of a damaged file those that can be read."""
    if not (results / study / PACKED).exists():
        return set()
    records = [stored.record for stored in read_packed(results / study)[0]]
    return {(record.arm, record.arm_hash, record.seed) for record in records}


def is_recorded(folder: Path) -> bool:
    """Whether a folder holds the record that belongs there, undamaged. One of a newer schema counts: it is not run again."""
    try:
        if not (folder / RECORD).exists():
            return False
        _in_its_place(folder.parents[2], folder)
        return True
    except UserError as error:
        return isinstance(error.__cause__, NewerSchema)


def _in_its_place(results: Path, folder: Path) -> StoredRecord:
    stored = read_stored(folder)
    record = stored.record
    place = record_folder(results, record.study, record.arm, record.arm_hash, record.seed)
    if place != folder:
        raise UserError(f"{folder / RECORD}: it is the record of {place.relative_to(results)}; delete {folder}")
    return stored


def write_study(results: Path, study: Study) -> None:
    """Writes the description of a study beside its records. UserError if the folder cannot be written."""
    _write(results / study.study, {STUDY: seal({"study": portable(non_default_settings(study))})})


def read_studies(results: Path, but: Collection[str] = ()) -> dict[str, Study]:
    """The descriptions of the studies below a results folder, by name, without those in the folders `but`.

    UserError naming the file, if one is damaged or was written by a version that knew other settings.
    """
    studies = {}
    for path in sorted(path for path in results.glob(f"*/{STUDY}") if path.parent.name not in but):
        with _intact(path, "delete this file and run the study again, which trains nothing anew"):
            study = Study.model_validate(unseal(path.read_bytes())["study"])
            if study.study != path.parent.name:
                raise ValueError(f"it describes the study {study.study!r}")
            studies[study.study] = study
    return studies
