"""What one arm and seed of a study leaves behind: the only truth that tables, figures, page and verdicts are made from.

`leadline.experiments.records.store` writes and reads records.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import BeforeValidator, Field, JsonValue
from typing_extensions import TypedDict

from leadline.experiments.config.base import Frozen
from leadline.experiments.records.json_file import strict_json
from leadline.experiments.records.measurement import Dim, Measurement, Point, Reading

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


class Sums(Frozen):
    """SHA-256 of the files that lie beside a record, as its run wrote them."""

    curves: str
    arrays: str


class Record(Frozen):
    """One arm of a study, trained (or computed) with one seed."""

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
    seconds: NonNegative
    flops: NonNegative
    parameters: int = Field(ge=0)
    measurements: tuple[Measurement, ...]
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


@dataclass(frozen=True)
class StoredRecord:
    """A record and what lies beside it, which is read when it is wanted. UserError naming a file that cannot be read then."""

    record: Record
    curve: Callable[[], Curve]
    arrays: Callable[[], Point]  # by reading


def created_at(record: Record) -> datetime:
    """The moment at which the record was made, comparable whichever way UTC was written."""
    return datetime.fromisoformat(record.created)


if __name__ == "__main__":  # `python -m leadline.experiments.records.record` rewrites the committed JSON Schema
    SCHEMA_FILE.write_text(json.dumps(Record.model_json_schema(), indent=1) + "\n", encoding="utf-8")
