"""The records of a study in one file, small enough to be published.

`STUDY/records.jsonl.gz` has one JSON object a line: a header with sums of the other lines and of the arrays, then for each
record the record itself, the rows of its curve and where its arrays lie. `STUDY/arrays.npz` has the arrays that a figure
reads, if there are any: those of one quantity and type behind each other. The sums in a record are those of the files of its
run, whether or not all of its arrays are published.
"""

import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from leadline.experiments.records.curve import curve_of, rows_of, text_of
from leadline.experiments.records.json_file import check_sum, line, parse, sealed, sha256, write_whole
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.records.portable import portable_record
from leadline.experiments.records.record import SCHEMA_VERSION, Curve, Record, StoredRecord
from leadline.experiments.runtime.errors import UserError

PACKED, PACKED_ARRAYS = "records.jsonl.gz", "arrays.npz"


class NewerSchema(ValueError):  # noqa: N818  # nothing is wrong with the record
    """A record of a later version of leadline."""


@dataclass(frozen=True)
class PackedRecord:
    """A record of a packed study."""

    record: Record  # itself
    rows: Sequence[Mapping[str, Any]]  # of its curve
    # of its arrays that are published, by key: the name of an array of `archive`, the first element, the shape
    places: Mapping[str, tuple[str, int, Sequence[int]]]
    archive: Path  # the file of the arrays

    def curve(self) -> Curve:
        return curve_of(self.rows)

    def arrays(self) -> Point:
        """The arrays that are published, by reading; `record.arrays` lists the others too.

        UserError naming the file, if it cannot be read.
        """
        entries = [entry for entry in self.record.arrays if entry.key in self.places]
        if not entries:
            return {}
        try:
            with np.load(self.archive, allow_pickle=False) as archive:
                return {reading(entry.quantity, **entry.dims): _slice(archive, *self.places[entry.key]) for entry in entries}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(f"{self.archive}: {error}; restore this file") from error


def _slice(archive: Mapping[str, np.ndarray], name: str, start: int, shape: Sequence[int]) -> np.ndarray:
    return archive[name][start : start + int(np.prod(shape))].reshape(shape)


def write_packed(folder: Path, records: Sequence[StoredRecord], quantities: Collection[str]) -> None:
    """Packs records, and of their arrays those of some quantities. The same records give the same bytes.

    OSError if the folder cannot be written. UserError if an array or a curve of a record cannot be read.
    """
    parts: dict[str, list[np.ndarray]] = {}
    sizes: dict[str, int] = {}
    lines = []
    for stored in records:
        arrays = stored.arrays()
        places: dict[str, tuple[str, int, Sequence[int]]] = {}
        for entry in stored.record.arrays:
            array = arrays.get(reading(entry.quantity, **entry.dims))
            if entry.quantity in quantities and array is not None:
                name = f"{entry.quantity}-{array.dtype}"
                places[entry.key] = (name, sizes.get(name, 0), array.shape)
                sizes[name] = sizes.get(name, 0) + array.size
                parts.setdefault(name, []).append(array.ravel())
        record = sealed(portable_record(stored.record).model_dump(mode="json"))
        lines.append(f"{line({'record': record, 'curve': rows_of(stored.curve()), 'arrays': places})}\n")
    arrays = _archive(parts)
    body = "".join(lines).encode()
    sums = {"records": sha256(body), "arrays": None if arrays is None else sha256(arrays)}
    packed = io.BytesIO()
    with gzip.GzipFile(
        filename="", mode="wb", fileobj=packed, mtime=0
    ) as file:  # no name and no time: the same bytes each time
        file.write(f"{line({'schema_version': SCHEMA_VERSION, **sums})}\n".encode() + body)
    folder.mkdir(parents=True, exist_ok=True)
    if arrays is None:
        (folder / PACKED_ARRAYS).unlink(missing_ok=True)
    else:
        write_whole(folder / PACKED_ARRAYS, arrays)
    write_whole(folder / PACKED, packed.getvalue())


def _archive(parts: Mapping[str, Sequence[np.ndarray]]) -> bytes | None:
    """The file of the arrays, None where there are none."""
    if not parts:
        return None
    archive = io.BytesIO()
    columns: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    np.savez_compressed(archive, allow_pickle=False, **columns)
    return archive.getvalue()


def read_packed(folder: Path) -> tuple[list[PackedRecord], list[str]]:
    """The records of a packed study, and a line for each file or record that is left out."""
    path = folder / PACKED
    try:
        header, _, body = gzip.decompress(path.read_bytes()).partition(b"\n")
        sums = parse(header)
        _check_version(sums)
        if sums["records"] != sha256(body):
            raise ValueError("its lines do not agree with their sum")
        path = folder / PACKED_ARRAYS
        if sums["arrays"] is not None and sums["arrays"] != sha256(path.read_bytes()):
            raise ValueError("it is not the file that was packed")
    except NewerSchema as error:
        return [], [f"left out: {path}: {error}"]
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        return [], [f"left out: {path}: {error}; restore this file, or pack the study again"]
    records, notes = [], []
    for number, content in enumerate(body.splitlines(), start=2):
        try:
            records.append(_unpacked(parse(content), folder))
        except ValueError as error:
            notes.append(f"left out: {folder / PACKED}, line {number}: {error}; pack the study again")
    return records, notes


def _unpacked(content: Mapping[str, Any], folder: Path) -> PackedRecord:
    record = validated(check_sum(content["record"]))
    if record.study != folder.name:
        raise ValueError(f"it is a record of the study {record.study!r}")
    if record.sums is None or sha256(text_of(content["curve"])) != record.sums.curves:
        raise ValueError("its curve is not the one that was written")
    places = {key: (name, start, shape) for key, (name, start, shape) in content["arrays"].items()}
    return PackedRecord(record, content["curve"], places, folder / PACKED_ARRAYS)


def validated(content: Mapping[str, Any]) -> Record:
    """The record of checked content.

    NewerSchema if it is of a schema that is not known here. ValueError in one line, if it does not fit the schema.
    """
    try:
        _check_version(content)
        return Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole record"
        raise ValueError(f"not a record ({place}: {first['msg']})") from error


def _check_version(content: Mapping[str, Any]) -> None:
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerSchema(f"schema version {version} is newer than {SCHEMA_VERSION}, the newest known here; upgrade leadline")
