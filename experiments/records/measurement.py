"""A measurement: a quantity with a value, a unit and dimensions, and how records are asked for one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.quantities import QUANTITIES, Quantity

Dim = int | float | str
# The dimension of a reading that is measured without each group of documents (leadline.experiments.records.left_out).
WITHOUT = "without"


class Reading(NamedTuple):
    """What was measured: a quantity and its dimensions, sorted by name. A key of the arrays that a program returns."""

    quantity: str
    dims: tuple[tuple[str, Dim], ...] = ()

    def at(self, **dims: Dim) -> "Reading":
        """The same reading with further dimensions."""
        return reading(self.quantity, **dict(self.dims), **dims)


def reading(quantity: str, **dims: Dim) -> Reading:
    """The reading of a quantity at some dimensions, whatever their order."""
    return Reading(quantity, tuple(sorted(dims.items())))


Point = dict[Reading, np.ndarray]


def scalars(values: Mapping[str, Any], **dims: Dim) -> Point:
    """Numbers by quantity as readings at these dimensions, without those that are None."""
    return {reading(name, **dims): np.asarray(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, init=False)
class Measurement:
    """One number of a record.

    A value that was not finite is None, in JSON null: it was measured and is no number.
    """

    quantity: str  # its name in the table of quantities
    value: float | None  # None where the number was not finite
    unit: str  # of the value
    dims: dict[str, Dim]  # layer, length, extension, task …; layers and heads count from 1

    def __init__(self, quantity: str, value: float | None, unit: str, **dims: Dim) -> None:
        number = None if value is None or not np.isfinite(value) else float(value)
        for name, content in (("quantity", quantity), ("value", number), ("unit", unit), ("dims", dims)):
            object.__setattr__(self, name, content)

    @property
    def reading(self) -> Reading:
        return reading(self.quantity, **self.dims)


@runtime_checkable
class HasMeasurements(Protocol):
    """What can be asked for measurements: a record."""

    @property
    def measurements(self) -> tuple[Measurement, ...]: ...

    @property
    def training_length(self) -> int | None: ...


def measurements_of(point: Mapping[Reading, np.ndarray], quantities: Mapping[str, Quantity] = QUANTITIES) -> list[Measurement]:
    """The numbers of a point: each array as one number, and layer by layer where its first axis is the layers.

    What was measured without a part of the data is no number of its own.

    Args:
        point: arrays by reading; their axes are those of their quantity.
        quantities: the table that says unit, axes and reduction of each.

    Raises:
        KeyError: for a quantity that is in no table.
    """
    numbers: list[Measurement] = []
    for (name, dims), array in sorted(point.items(), key=str):
        quantity = quantities[name]
        if quantity.reduce is None or WITHOUT in dict(dims):
            continue
        reduce = np.max if quantity.reduce == "max" else np.mean
        numbers.append(Measurement(name, float(reduce(array.astype(np.float64))), quantity.unit, **dict(dims)))
        if quantity.axes[:1] == ("layer",) and array.ndim:
            for layer, row in enumerate(array.astype(np.float64), start=1):
                numbers.append(Measurement(name, float(reduce(row)), quantity.unit, **dict(dims), layer=layer))
    return numbers


def value_of(record: HasMeasurements, quantity: str, **dims: Any) -> float | None:
    """The value of a quantity at exactly these dimensions, or None where the record has none.

    A dimension that is not given must be absent: `sink_rate` is the mean over layers, `sink_rate` with `layer=2` that of the
    second. A `TrainingLength` is resolved against the record's own training length.
    """
    resolved = resolve(record, dims)
    wanted = None if resolved is None else reading(quantity, **resolved)
    entries = (entry for entry in record.measurements if entry.quantity == quantity)
    return next((entry.value for entry in entries if entry.reading == wanted), None)


def select(records: Iterable[Any], quantity: str, **dims: Any) -> Iterator[tuple[Any, float]]:
    """(record, value) of every record that has a finite value of the quantity at exactly these dimensions.

    Example:
        select(records, "perplexity", extension="yarn", length=TrainingLength(multiple=8))
    """
    for record in records:
        value = value_of(record, quantity, **dims)
        if value is not None:
            yield record, value


def resolve(record: HasMeasurements, dims: Mapping[str, Any]) -> dict[str, Dim] | None:
    """The dimensions with every multiple as the number of tokens that it is for this record; None where it is none."""
    length = record.training_length
    if length is None and any(isinstance(value, TrainingLength) for value in dims.values()):
        return None
    return {
        name: round(value.multiple * (length or 0)) if isinstance(value, TrainingLength) else value
        for name, value in dims.items()
    }
