"""The records of a study that a table or figure is about, and the values of its keys."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.experiments.config.load import named_arms
from leadline.experiments.config.report import Column, Published, Selector
from leadline.experiments.config.study import Study
from leadline.experiments.publish.names import dims_name, order, quantity, value_name
from leadline.experiments.records.measurement import Dim
from leadline.experiments.records.record import Record, StoredRecord, created_at

Key = tuple[Dim | None, ...]
QUANTITY = "quantity"  # the key that tells columns apart


@dataclass(frozen=True)
class Shown:
    """Records of one study, and how its arms are called and ordered."""

    study: Study  # as its file describes it
    stored: Sequence[StoredRecord]  # the records that are shown, diverged ones among them
    families: Mapping[str, str]  # of each arm the name that the file has it under
    labels: Mapping[str, Mapping[str, str]] = field(repr=False)  # of each arm and family what readers call it

    @property
    def records(self) -> list[Record]:
        return [entry.record for entry in self.stored]

    @property
    def finished(self) -> list[StoredRecord]:
        return [entry for entry in self.stored if entry.record.status == "finished"]

    @property
    def units(self) -> dict[str, str]:
        """The unit of every quantity that was measured."""
        return {entry.quantity: entry.unit for record in self.records for entry in record.measurements}

    def value(self, key: str, record: Record, dims: Mapping[str, Dim]) -> Dim | None:
        """The value of a key for one reading of a record."""
        if key == "arm":
            return record.arm
        if key == "family":
            return self.families.get(record.arm, record.arm)
        return configured(record.config, key) if "." in key else dims.get(key)

    def text(self, key: str, value: Dim | None, *, bare: bool = False) -> str:
        """The value of a key as readers see it."""
        return self.labels[key][str(value)] if key in self.labels else value_name(key, value, bare=bare)

    def place(self, keys: Sequence[str], values: Key) -> tuple[tuple[int, float, str], ...]:
        """What a row, line or panel is sorted by: key by key, arms in the order of the file and then of their records."""
        return tuple(
            (0, float(list(self.labels[key]).index(str(value))), "") if key in self.labels else order(key, value)
            for key, value in zip(keys, values, strict=True)
        )

    def published(self, record: Record) -> tuple[Published, ...]:
        """The published figures of an arm."""
        described = self.study.arms.get(self.families.get(record.arm, record.arm), {})
        return tuple(Published.model_validate(entry) for entry in described.get("published", ()))


def shown(study: Study, stored: Iterable[StoredRecord], where: Selector, labels: Sequence[str] = ()) -> Shown:
    """The records of a study whose configuration `where` describes and whose arm or family has one of the labels."""
    named = named_arms(study)
    known = {arm: number for number, arm in enumerate(named)}
    entries = [entry for entry in stored if entry.record.study == study.study]
    entries.sort(key=lambda entry: (known.get(entry.record.arm, len(known)), created_at(entry.record), entry.record.arm))
    written = {entry.record.arm: named.get(entry.record.arm, (entry.record.arm, ""))[0] for entry in entries}
    arms = {entry.record.arm: _label(entry.record, named) for entry in entries}
    of_family = {family: _family_label(study, family, arms.get(family)) for family in written.values()}
    kept = [
        entry
        for entry in entries
        if matches(entry.record.config, where)
        and (not labels or {arms[entry.record.arm], of_family[written[entry.record.arm]]} & set(labels))
    ]
    return Shown(study, kept, written, {"arm": arms, "family": of_family})


def _label(record: Record, named: Mapping[str, tuple[str, str]]) -> str:
    """As the study has it now, else as it was recorded."""
    return named[record.arm][1] if record.arm in named else record.label or record.arm.replace("_", " ")


def _family_label(study: Study, family: str, of_arm: str | None) -> str:
    return str(study.arms.get(family, {}).get("label") or of_arm or family.replace("_", " "))


def heading_of(column: Column, chosen: Shown) -> str:
    """What readers see for a column: its heading, or its quantity and dimensions."""
    dims = dims_name(column.at)
    return column.heading or f"{quantity(column.quantity, chosen.units).heading}{f', {dims}' if dims else ''}"


def file_name(study: Study, name: str) -> str:
    """The name of the files of a table or figure, without ending: studies beside each other share one folder."""
    return f"{study.study}_{name}" if name else study.study


def of_record(key: str) -> bool:
    """Whether a record says the value of a key by itself, whatever was measured."""
    return key in ("arm", "family") or "." in key


def configured(config: Mapping[str, Any], key: str) -> Dim | None:
    """The value at a dotted key of a resolved configuration; of a tagged table its `kind`, and None of nothing."""
    node = _at(config, key)
    if isinstance(node, Mapping):
        node = node.get("kind")
    return node if isinstance(node, bool | int | float | str) else None


def matches(config: Mapping[str, Any], where: Selector) -> bool:
    """Whether a resolved configuration has the values of a selector."""
    return all(_agrees(_at(config, key), wanted) for key, wanted in where.items())


def _at(node: Any, key: str) -> Any:
    for part in key.removeprefix("config.").split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _agrees(actual: Any, wanted: Any) -> bool:
    if isinstance(actual, Mapping):
        if isinstance(wanted, Mapping):
            return all(_agrees(actual.get(key), value) for key, value in wanted.items())
        return wanted is True or actual.get("kind") == wanted
    return wanted is False if actual is None else actual == wanted


def free_dims(dims: Mapping[str, Dim], fixed: Mapping[str, Dim], free: Sequence[str]) -> dict[str, Dim] | None:
    """What is left of dimensions beside the fixed ones; None unless those agree and the rest is free."""
    rest = {key: value for key, value in dims.items() if key not in fixed}
    agrees = all(dims.get(key) == value for key, value in fixed.items()) and set(rest) <= set(free)
    return rest if agrees else None
