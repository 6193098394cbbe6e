"""The records of a study in one file, small enough to be published.

`STUDY/records.jsonl.xz` has one JSON object a line: a header with sums of the other lines and of the arrays, then for each
record the record itself, the rows of its curve and where its arrays lie. `STUDY/arrays.npz` has the arrays that a figure
reads, if there are any: those of one quantity and type after each other. The sums in a record are those of the files of its
run, whether or not all of its arrays are published.
"""

import io
import lzma
import math
import zipfile
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from leadline.experiments.records.json_file import SUM, json_lines, line, parse, reason, sha256, write_whole
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.records.portable import portable_record
from leadline.experiments.records.record import SCHEMA_VERSION, Curve, Record, StoredRecord
from leadline.experiments.runtime.errors import UserError

PACKED, PACKED_ARRAYS = "records.jsonl.xz", "arrays.npz"
LARGEST = 1 << 28  # bytes of records unpacked; the largest study that is published has 5 MB
Place = tuple[str, int, Sequence[int]]  # of an array: the name of an array of the archive, the first element, the shape


class NewerSchema(ValueError):  # noqa: N818  # nothing is wrong with the record
    """A record of a later version of leadline."""


def write_packed(folder: Path, records: Sequence[StoredRecord], quantities: Collection[str]) -> None:
    """Packs records, and of their arrays those of some quantities. The same records give the same bytes.

    OSError if the folder cannot be written. UserError if an array or a curve of a record cannot be read.
    """
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    lines = []
    for stored in records:
        arrays = stored.arrays()
        places: dict[str, Place] = {}
        for entry in stored.record.arrays:
            array = arrays.get(reading(entry.quantity, **entry.dims))
            if entry.quantity in quantities and array is not None:
                name = f"{entry.quantity}-{array.dtype}"
                places[entry.key] = (name, sum(part.size for part in parts[name]), array.shape)
                parts[name].append(array.ravel())
        nameless = tuple(worker.model_copy(update={"host": "", "pid": 0}) for worker in stored.record.workers)
        published = portable_record(stored.record).model_copy(update={"workers": nameless})
        record = published.model_dump(mode="json", exclude={SUM})  # the header has the sum of all lines
        lines.append(f"{line({'record': record, 'curve': stored.curve().rows(), 'arrays': places})}\n")
    archive = io.BytesIO()
    columns: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    np.savez_compressed(archive, allow_pickle=False, **columns)
    arrays = archive.getvalue() if parts else None
    body = "".join(lines).encode()
    sums = {"records": sha256(body), "arrays": None if arrays is None else sha256(arrays)}
    header = f"{line({'schema_version': SCHEMA_VERSION, **sums})}\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    if arrays is None:
        (folder / PACKED_ARRAYS).unlink(missing_ok=True)
    else:
        write_whole(folder / PACKED_ARRAYS, arrays)
    write_whole(folder / PACKED, lzma.compress(header + body, preset=9 | lzma.PRESET_EXTREME))


def read_packed(folder: Path) -> tuple[list[StoredRecord], list[str]]:
    """The records of a packed study, and a line for each file or record that is left out."""
    path = folder / PACKED
    try:
        unpacker = lzma.LZMADecompressor()
        header, _, body = unpacker.decompress(path.read_bytes(), LARGEST).partition(b"\n")
        if not unpacker.eof or unpacker.unused_data:
            raise ValueError(f"it is cut off, or unpacks to more than {LARGEST} bytes")
        sums = parse(header)
        _check_version(sums)
        if sums["records"] != sha256(body):
            raise ValueError("its lines do not agree with their sum")
        path = folder / PACKED_ARRAYS
        if sums["arrays"] is not None and sums["arrays"] != sha256(path.read_bytes()):
            raise ValueError("it is not the file that was packed")
    except NewerSchema as error:
        return [], [f"left out: {path}: {error}"]
    except (OSError, lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        return [], [f"left out: {path}: {error}; restore this file, or pack the study again"]
    records, notes, columns = [], [], dict[str, np.ndarray]()
    for number, content in enumerate(body.splitlines(), start=2):
        try:
            records.append(_unpacked(parse(content), folder, columns))
        except (ValueError, KeyError, TypeError) as error:
            notes.append(f"left out: {folder / PACKED}, line {number}: {error}; pack the study again")
    return records, notes


def _unpacked(content: Mapping[str, Any], folder: Path, columns: dict[str, np.ndarray]) -> StoredRecord:
    record = validated(content["record"])
    if record.study != folder.name:
        raise ValueError(f"it is a record of the study {record.study!r}")
    if record.sums is None or sha256(json_lines(content["curve"])) != record.sums.curves:
        raise ValueError("its curve is not the one that was written")
    places = {key: (name, start, shape) for key, (name, start, shape) in content["arrays"].items()}
    curve = partial(Curve.of_rows, content["curve"])
    return StoredRecord(record, curve, partial(_arrays, record, places, folder / PACKED_ARRAYS, columns))


def _arrays(record: Record, places: Mapping[str, Place], path: Path, columns: dict[str, np.ndarray]) -> Point:
    """The arrays of a record that are published, by reading; `record.arrays` lists the others too.

    `columns` are those of the file that were unpacked before, for any of its records.
    """
    if not places:
        return {}
    try:
        if missing := {name for name, _, _ in places.values()} - columns.keys():
            with np.load(path, allow_pickle=False) as archive:
                columns |= {name: archive[name] for name in missing}
        arrays = {key: columns[name][start:][: math.prod(shape)] for key, (name, start, shape) in places.items()}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: {error}; restore this file") from error
    entries = [entry for entry in record.arrays if entry.key in places]
    return {reading(entry.quantity, **entry.dims): arrays[entry.key].reshape(places[entry.key][2]) for entry in entries}


def validated(content: Any) -> Record:
    """The record of content whose sum was checked.

    NewerSchema if it is of a schema that is not known here. ValueError in one line, if it does not fit the schema.
    """
    try:
        _check_version(content)
        return Record.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"not a record ({reason(error)})") from error


def _check_version(content: Any) -> None:
    if not isinstance(content, dict):
        raise ValueError("it is no object")
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerSchema(f"schema version {version} is newer than {SCHEMA_VERSION}, the newest known here; upgrade leadline")
