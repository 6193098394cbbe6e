"""What one arm and seed of a study leaves behind: the only truth that tables, figures, page and verdicts are made from.

`leadline.experiments.records.store` writes and reads records.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer
from typing_extensions import TypedDict

from leadline.experiments.records.json_file import strict_json
from leadline.experiments.records.measurement import Dim, Measurement, Point, Reading

SCHEMA_VERSION = 2
SCHEMA_FILE = Path(__file__).with_name("record.schema.json")


Json = Annotated[dict[str, JsonValue], BeforeValidator(strict_json, json_schema_input_type=dict[str, JsonValue])]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=0)]
_UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)$"


class ArrayEntry(BaseModel):
    """One array of `arrays.npz`: what it is of, and under which key it lies there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    quantity: str
    dims: dict[str, Dim] = Field(default_factory=dict)
    axes: tuple[str, ...] = Field(description="what the axes of the array are, outermost first")


def _measurement(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    try:
        return Measurement(value["quantity"], value["value"], value["unit"], **value.get("dims", {}))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a measurement ({error})") from error


class MeasurementFields(TypedDict):
    """A measurement as JSON: a value that was not finite is null, for it was measured and is no number."""

    quantity: str
    value: float | None
    unit: str
    dims: dict[str, Dim]


def _measurement_fields(measurement: Measurement) -> MeasurementFields:
    return MeasurementFields(
        quantity=measurement.quantity, value=measurement.value, unit=measurement.unit, dims=dict(measurement.dims)
    )


StoredMeasurement = Annotated[
    Measurement,
    BeforeValidator(_measurement, json_schema_input_type=MeasurementFields),
    PlainSerializer(_measurement_fields, return_type=MeasurementFields),
]


class Device(TypedDict):
    """Where the numbers were computed, as JAX names it."""

    platform: str
    kind: str
    count: int


class Sums(BaseModel):
    """SHA-256 of the files that lie beside a record, as its run wrote them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    curves: str
    arrays: str


class Record(BaseModel):
    """One arm of a study, trained (or computed) with one seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

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
    steps: int = Field(ge=0)
    tokens: int = Field(ge=0)
    seconds: Finite
    flops: Finite
    parameters: int = Field(ge=0)
    measurements: tuple[StoredMeasurement, ...]
    arrays: tuple[ArrayEntry, ...] = ()
    sums: Sums | None = Field(default=None, description="absent until the record is written")
    sum: str = Field(default="", description="SHA-256 of all other fields; empty until the record is written")

    @property
    def training_length(self) -> int | None:
        """The length [tokens] that the first weights of the arm were trained at; None where nothing was trained."""
        start, data = self.config.get("start"), self.config.get("data")
        table = start if isinstance(start, dict) else data
        length = table.get("length") if isinstance(table, dict) else None
        return length if isinstance(length, int) else None


@dataclass(frozen=True)
class Curve:
    """What was measured along the way: the steps, and of each reading a value a step, NaN where it was not finite."""

    steps: Int[np.ndarray, " P"]
    values: Mapping[Reading, Float[np.ndarray, " P"]]


@runtime_checkable
class StoredRecord(Protocol):
    """A record and what lies beside it, which is read when it is wanted."""

    @property
    def record(self) -> Record: ...

    def curve(self) -> Curve: ...

    def arrays(self) -> Point: ...


def created_at(record: Record) -> datetime:
    """The moment at which the record was made, comparable whichever way UTC was written."""
    return datetime.fromisoformat(record.created)


def schema_text() -> str:
    """The JSON Schema of a record, as `record.schema.json` holds it."""
    return json.dumps(Record.model_json_schema(), indent=1) + "\n"


def write_schema(path: Path = SCHEMA_FILE) -> None:
    """Rewrites the committed JSON Schema: run `python -m leadline.experiments.records.record` after a change above."""
    path.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write_schema()
