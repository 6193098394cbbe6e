"""The records of a study that a table or figure is about, and the values of its keys."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from leadline.experiments.config.load import named_arms
from leadline.experiments.config.report import Column, FigureSpec, Published, TableSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.names import ABSENT, dims_name, order, value_name
from leadline.experiments.records.arms import has, part_of, setting
from leadline.experiments.records.measurement import Dim
from leadline.experiments.records.quantities import Quantity, quantity
from leadline.experiments.records.record import Record, StoredRecord, created_at
from leadline.experiments.runtime.errors import UserError

Key = tuple[Dim | None, ...]
# Of the name of each arm of a study the name that the file has it under, and its label (`named_arms`).
Named = Mapping[str, tuple[str, str]]
QUANTITY = "quantity"  # the key that tells columns apart: its value is the number of a column


@dataclass(frozen=True)
class Shown:
    """Records of one study, and how its arms are called and ordered."""

    study: Study  # as its file describes it
    columns: Sequence[Column]  # what is shown of each record
    stored: Sequence[StoredRecord]  # the records that are shown, diverged ones among them
    families: Mapping[str, str]  # of each arm the name that the file has it under
    labels: Mapping[str, Mapping[str, str]] = field(repr=False)  # of each arm and family what readers call it

    @property
    def records(self) -> list[Record]:
        return [entry.record for entry in self.stored]

    @property
    def finished(self) -> list[StoredRecord]:
        return [entry for entry in self.stored if entry.record.status == "finished"]

    @cached_property
    def _units(self) -> dict[str, str]:
        return {entry.quantity: entry.unit for record in self.records for entry in record.measurements}

    def quantity(self, name: str) -> Quantity:
        """A quantity by its name; one that a study plugged in has the unit of its measurements."""
        return quantity(name, self._units.get(name, "1"))

    def heading(self, column: Column) -> str:
        """What readers see for a column: its heading, or its quantity and dimensions."""
        dims, above = dims_name(column.at), "" if column.above is None else f" above {column.above:g}"
        return column.heading or f"{self.quantity(column.quantity).heading}{above}{f', {dims}' if dims else ''}"

    def key(self, keys: Sequence[str], record: Record, dims: Mapping[str, Dim], index: int = 0) -> Key:
        """The values of keys for one reading of a record, of the column with this number."""
        return tuple(index if key == QUANTITY else self.value(key, record, dims) for key in keys)

    def value(self, key: str, record: Record, dims: Mapping[str, Dim]) -> Dim | None:
        """The value of a key for one reading of a record."""
        if key == "arm":
            return record.arm
        if key == "family":
            return self.families.get(record.arm, record.arm)
        return configured(record.config, key) if "." in key else dims.get(key)

    def text(self, key: str, value: Dim | None, *, bare: bool = False) -> str:
        """The value of a key as readers see it."""
        if key == QUANTITY:
            return self.heading(self.columns[int(str(value))])
        return self.labels[key][str(value)] if key in self.labels else value_name(key, value, bare=bare)

    def label(self, keys: Sequence[str], values: Key) -> str:
        """What readers see for the values of keys; what a reading lacks is left out, unless nothing else is said."""
        parts = [self.text(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
        return ", ".join(parts or [ABSENT[key] for key in keys if key in ABSENT][:1])

    def place(self, keys: Sequence[str], values: Key) -> tuple[tuple[int, float, str], ...]:
        """What a row, line or panel is sorted by: key by key, arms in the order of the file and then of their records."""
        return tuple(
            (0, float(list(self.labels[key]).index(str(value))), "") if key in self.labels else order(key, value)
            for key, value in zip(keys, values, strict=True)
        )

    def take_apart(self, title: str, seen: set[Hashable], record: Record, *place: Hashable) -> None:
        """Notes in `seen` that a record has a reading at this place, as in a cell of a table.

        Raises:
            UserError: if another reading of the same seed is there: a mean over both would not be one over seeds.
        """
        reading = (record.seed, *place)
        if reading in seen:
            raise UserError(
                f"{self.study.study}: {title}: readings of several arms or dimensions fall into one place, such as two of seed "
                f"{record.seed}; add the key that tells them apart, or name it in `at`, `where` or `over`"
            )
        seen.add(reading)

    def published(self, record: Record) -> tuple[Published, ...]:
        """The published figures of an arm."""
        described = self.study.arms.get(self.families.get(record.arm, record.arm), {})
        return tuple(Published.model_validate(entry) for entry in described.get("published", ()))


def shown(spec: TableSpec | FigureSpec, study: Study, stored: Iterable[StoredRecord], arms_of: Named | None = None) -> Shown:
    """The records of a study whose configuration `where` describes and whose arm or family has one of the labels.

    `arms_of` is `named_arms` of the study; None: it is called here.
    """
    named = named_arms(study) if arms_of is None else arms_of
    known = {arm: number for number, arm in enumerate(named)}
    entries = [entry for entry in stored if entry.record.study == study.study]
    entries.sort(key=lambda entry: (known.get(entry.record.arm, len(known)), created_at(entry.record), entry.record.arm))
    families: dict[str, str] = {}
    arms: dict[str, str] = {}
    for record in (entry.record for entry in entries):  # as the study has them now, else as they were recorded
        recorded = record.arm, record.label or record.arm.replace("_", " ")
        families[record.arm], arms[record.arm] = named.get(record.arm, recorded)
    of_family = {
        family: str(study.arms.get(family, {}).get("label") or arms.get(family) or family.replace("_", " "))
        for family in families.values()
    }
    kept = [
        entry
        for entry in entries
        if all(_has(entry.record, key, value) for key, value in spec.where.items())
        and (not spec.labels or {arms[entry.record.arm], of_family[families[entry.record.arm]]} & set(spec.labels))
    ]
    columns = spec.columns if isinstance(spec, TableSpec) else spec.quantities
    return Shown(study, columns, kept, families, {"arm": arms, "family": of_family})


def _has(record: Record, key: str, value: object) -> bool:
    """As a selector has it, but that a table may say a part of what is there."""
    key = key.removeprefix("config.")
    if isinstance(value, Mapping):
        return part_of(value, setting(record.config, key))
    return has(record.config, key, value, record.training_length)


def file_name(study: Study, name: str) -> str:
    """The name of the files of a table or figure, without ending: studies beside each other share one folder."""
    return f"{study.study}_{name}" if name else study.study


def of_record(key: str) -> bool:
    """Whether a record says the value of a key by itself, whatever was measured."""
    return key in ("arm", "family") or "." in key


def configured(config: Mapping[str, Any], key: str) -> Dim | None:
    """The value at a dotted key of a resolved configuration; of a tagged table its `kind`, and None of nothing."""
    value = setting(config, key.removeprefix("config."))
    if isinstance(value, Mapping):
        value = value.get("kind")
    return value if isinstance(value, bool | int | float | str) else None


def free_dims(dims: Mapping[str, Dim], fixed: Mapping[str, Dim] | None, free: Collection[str]) -> dict[str, Dim] | None:
    """What is left of the dimensions of a reading beside the `fixed` ones; None unless these agree and the rest is free."""
    if fixed is None or not fixed.items() <= dims.items():
        return None
    rest = {key: value for key, value in dims.items() if key not in fixed}
    return rest if set(rest) <= set(free) else None
