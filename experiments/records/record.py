"""What one arm and seed of a study leaves: the only truth that tables, figures, page and verdicts are made from.

`leadline.experiments.records.store` writes and reads records.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import BeforeValidator, ConfigDict, Field, JsonValue
from typing_extensions import TypedDict

from leadline.experiments.config.base import Frozen
from leadline.experiments.records.json_file import rounded, strict_json
from leadline.experiments.records.left_out import LeftOut
from leadline.experiments.records.measurement import Dim, Measurement, Point, Reading, reading

SCHEMA_VERSION = 2
SCHEMA_FILE = Path(__file__).with_name("record.schema.json")

Json = Annotated[dict[str, JsonValue], BeforeValidator(strict_json, json_schema_input_type=dict[str, JsonValue])]
NonNegative = Annotated[float, Field(ge=0)]
_UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$"


class ArrayEntry(Frozen):
    """One array of `arrays.npz`: what it is of, and under which key it lies there."""

    key: str
    quantity: str
    dims: dict[str, Dim] = Field(default_factory=dict)
    axes: tuple[str, ...] = Field(description="what the axes of the array are, outermost first")


class Device(TypedDict):
    """Where the numbers were computed, as JAX names it."""

    platform: str
    kind: str
    count: int


class Worked(Frozen):
    """A process that trained a model: one, unless it was stopped and another one went on."""

    host: str
    pid: int
    began: str = Field(pattern=_UTC, description="ISO 8601, UTC")
    first_step: int = Field(ge=0, description="steps that the model had been trained for then")


class Sums(Frozen):
    """SHA-256 of the files that lie beside a record, as its run wrote them."""

    curves: str
    arrays: str


class Record(Frozen):
    """One arm of a study, trained (or computed) with one seed."""

    model_config = ConfigDict(strict=False)  # measurements are dataclasses, which JSON does not have

    schema_version: int = Field(default=SCHEMA_VERSION, ge=1)
    study: str = Field(min_length=1)
    arm: str = Field(min_length=1)
    label: str = Field(default="", description="what tables call the arm")
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
    workers: tuple[Worked, ...] = Field(
        default=(), description="the processes that trained it; without names in published records"
    )
    steps: int = Field(ge=0)
    tokens: int = Field(ge=0)
    seconds: NonNegative
    flops: NonNegative
    parameters: int = Field(ge=0)
    measurements: tuple[Measurement, ...]
    left_out: tuple[LeftOut, ...] = Field(default=(), description="the measurements without each group of documents")
    arrays: tuple[ArrayEntry, ...] = ()
    sums: Sums | None = Field(default=None, description="absent until the record is written")
    sum: str = Field(default="", description="SHA-256 of all other fields; empty until the record is written")

    @property
    def training_length(self) -> int | None:
        """The length [tokens] that the first weights of the arm were trained at; None where nothing was trained."""
        table = self.config.get("start") or self.config.get("data")
        length = table.get("length") if isinstance(table, dict) else None
        return length if isinstance(length, int) else None


@dataclass(frozen=True)
class Curve:
    """What was measured along the way: the steps, and of each reading a value a step, NaN where it was not finite."""

    steps: Int[np.ndarray, " P"]
    values: Mapping[Reading, Float[np.ndarray, " P"]]

    def extended(self, step: int, values: Mapping[Reading, float]) -> "Curve":
        """The curve with one more point. What one of the two lacks is NaN there."""
        absent = np.full(len(self.steps), np.nan)
        readings = sorted({*self.values, *values}, key=str)
        longer = {key: np.append(self.values.get(key, absent), values.get(key, np.nan)) for key in readings}
        return Curve(np.append(self.steps, step), longer)

    def until(self, step: int) -> "Curve":
        """The points up to a step."""
        kept = self.steps <= step
        return Curve(self.steps[kept], {key: values[kept] for key, values in self.values.items()})

    def rows(self) -> list[dict[str, Any]]:
        """The curve as JSON, rounded: `{"readings": [{"quantity", "dims"}, …]}` and one `{"step", "values"}` per point."""
        header = {"readings": [{"quantity": key.quantity, "dims": dict(key.dims)} for key in self.values]}
        points = zip(self.steps, *self.values.values(), strict=True)
        return [header, *({"step": int(step), "values": [rounded(value) for value in row]} for step, *row in points)]

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Curve":
        """The curve of such rows. ValueError for rows of another form."""
        try:
            header, *points = rows
            readings = [reading(entry["quantity"], **entry["dims"]) for entry in header["readings"]]
            table = np.array([point["values"] for point in points], np.float64).reshape(len(points), len(readings))
            steps = np.array([point["step"] for point in points], np.int64)
        except (KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"not the rows of a curve ({error})") from error
        return cls(steps, {key: table[:, i] for i, key in enumerate(readings)})


NO_CURVE = Curve(np.zeros(0, np.int64), {})


@dataclass(frozen=True)
class StoredRecord:
    """A record and what lies beside it, which is read when it is wanted. UserError naming a file that cannot be read then."""

    record: Record
    curve: Callable[[], Curve]
    arrays: Callable[[], Point]  # by reading


def created_at(record: Record) -> datetime:
    """The moment at which the record was made, comparable whichever way UTC was written."""
    return datetime.fromisoformat(record.created)


def begun_at(record: Record) -> datetime:
    """The moment at which the first of the processes that trained the model began; that of the record where it names none."""
    return min((datetime.fromisoformat(worker.began) for worker in record.workers), default=created_at(record))


if __name__ == "__main__":  # `python -m leadline.experiments.records.record` rewrites the committed JSON Schema
    SCHEMA_FILE.write_text(json.dumps(Record.model_json_schema(), indent=1) + "\n", encoding="utf-8")
