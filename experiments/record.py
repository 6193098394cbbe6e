"""What one arm and seed of a study leaves behind: the only truth that tables, figures, page and verdicts are made from.

`results/STUDY/ARM-HASH/sSEED/` holds `curves.jsonl` (one JSON object a measured step), `arrays.npz` (per layer and
head) and `record.json`, which is written last: a folder without it is a run that did not end.
"""

import io
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from typing_extensions import TypedDict

from experiments.errors import UserError

SCHEMA_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("record.schema.json")
RECORD, CURVES, ARRAYS = "record.json", "curves.jsonl", "arrays.npz"


def strict_json(value: object) -> object:
    """Turns a nested value into what strict JSON can hold, without loss: inf, -inf, nan become strings that name them.

    A softmax logit of -inf is a legal setting, and JSON has no such number. NumPy's scalars become Python's.

    Raises:
        TypeError: for a value that is no number, text, boolean, None, list or mapping.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case np.generic():
            return strict_json(value.item())
        case Mapping():
            return {str(key): strict_json(entry) for key, entry in value.items()}
        case list() | tuple():
            return [strict_json(entry) for entry in value]
    raise TypeError(f"a record cannot hold {type(value).__name__}: give numbers, text, lists or mappings")


def _finite_or_none(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


Json = Annotated[dict[str, JsonValue], BeforeValidator(strict_json, json_schema_input_type=dict[str, JsonValue])]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=0)]
_UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$"


class Measurement(BaseModel):
    """One number with its unit. A value that is not finite is kept as null: it was measured, and it is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Annotated[float | None, BeforeValidator(_finite_or_none)]
    unit: str


class Device(TypedDict):
    """Where the numbers were computed, as JAX names it."""

    platform: str
    kind: str
    count: int


class Record(BaseModel):
    """One arm of a study, trained (or computed) with one seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    study: str = Field(min_length=1)
    arm: str = Field(min_length=1)
    arm_hash: str = Field(pattern=r"^[0-9a-f]{12}$", description="of everything that can change the numbers")
    seed: int = Field(ge=0)
    status: Literal["finished", "diverged"]
    message: str | None = Field(default=None, description="why the arm ended before its last step")
    config: Json = Field(description="the resolved configuration of the arm")
    data: Json = Field(description="name and digest of the data, and what else is known of it")
    commit: str | None = None
    dirty: bool | None = Field(default=None, description="whether tracked files differed from the commit")
    created: str = Field(pattern=_UTC, description="ISO 8601, UTC")
    versions: dict[str, str]
    device: Device
    steps: int = Field(ge=0)
    tokens: int = Field(ge=0)
    seconds: Finite
    flops: Finite
    parameters: int = Field(ge=0)
    measurements: dict[str, Measurement]


@dataclass(frozen=True)
class StoredRecord:
    """A record and the folder that it lies in; `read_curves` and `read_arrays` read the rest when it is wanted."""

    folder: Path
    record: Record


def created_at(record: Record) -> datetime:
    """The moment at which the record was made, comparable whichever way UTC was written."""
    return datetime.fromisoformat(record.created)


def record_folder(results: Path, study: str, arm: str, arm_hash: str, seed: int) -> Path:
    """`results/STUDY/ARM-HASH/sSEED`.

    Raises:
        UserError: if a name cannot be a folder of its own (empty, hidden, or with a separator in it).
    """
    for what, name in (("study", study), ("arm", arm)):
        if not name or name.startswith(".") or re.search(r"[/\\\0]", name):
            raise UserError(f"{what} {name!r} cannot name a folder: leave out slashes and a leading dot")
    return results / study / f"{arm}-{arm_hash}" / f"s{seed}"


def _replace(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: a temporary file beside it, flushed to the disk, then renamed over it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _line(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def write_record(
    folder: Path,
    record: Record,
    curves: Iterable[Mapping[str, object]],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Writes curves and arrays, then the record, each atomically; numbers that are not finite are null in the curves.

    Raises:
        UserError: if the folder cannot be written.
    """
    points = [{str(key): _finite_or_none(value) for key, value in point.items()} for point in curves]
    lines = "".join(_line(strict_json(point)) + "\n" for point in points)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **{name: np.asarray(array) for name, array in arrays.items()})
    text = json.dumps(record.model_dump(mode="json"), allow_nan=False, ensure_ascii=False, indent=1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / CURVES, lines.encode())
        _replace(folder / ARRAYS, packed.getvalue())
        _replace(folder / RECORD, (text + "\n").encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{folder}: cannot write results ({reason}); choose another folder with --results") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _parse(text: str) -> object:
    return json.loads(text, parse_constant=_no_constant)


def read_record(folder: Path) -> Record:
    """The record of one folder.

    Raises:
        UserError: if the file is missing, is not strict JSON, does not fit the schema, or is of a newer schema.
    """
    path = folder / RECORD
    try:
        content = _parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot read the record ({error.strerror}); run the arm again") from error
    except ValueError as error:
        raise UserError(f"{path}: not a record ({error}); delete the folder and run the arm again") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(
            f"{path}: schema version {version} is newer than {SCHEMA_VERSION}, the newest known here; upgrade leadline"
        )
    try:
        return Record.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise UserError(f"{path}: not a record ({place}: {first['msg']}); run the arm again") from error


def read_records(results: Path, study: str | None = None) -> list[StoredRecord]:
    """Every record below a results folder, or those of one study, sorted by study, arm, hash and seed."""
    found = results.glob(f"*/*/s*/{RECORD}")
    records = [StoredRecord(path.parent, read_record(path.parent)) for path in found]
    kept = [stored for stored in records if study in (None, stored.record.study)]
    return sorted(kept, key=lambda s: (s.record.study, s.record.arm, s.record.arm_hash, s.record.seed))


def read_curves(folder: Path) -> list[dict[str, Any]]:
    """The measured steps in their order; a value that was not finite is None.

    Raises:
        UserError: naming the file and the line that is not JSON.
    """
    path = folder / CURVES
    points = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        try:
            point = _parse(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}; delete the folder and run the arm again") from error
        if not isinstance(point, dict):
            raise UserError(f"{path}, line {number}: not a JSON object; delete the folder and run the arm again")
        points.append(point)
    return points


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete the folder and run the arm again") from error


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays by name.

    Raises:
        UserError: if the file is missing, damaged or holds Python objects.
    """
    path = folder / ARRAYS
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete the folder and run the arm again") from error


def schema_text() -> str:
    """The JSON Schema of a record, as `record.schema.json` holds it."""
    return json.dumps(Record.model_json_schema(), indent=1) + "\n"


def write_schema(path: Path = SCHEMA_FILE) -> None:
    """Rewrites the committed JSON Schema; `python -m experiments.record` calls it after the model above was changed."""
    path.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write_schema()
