"""What a figure reads of records: the values of its quantities along an axis, and the names of its lines and panels."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from leadline.experiments.config.report import Column, FigureSpec
from leadline.experiments.publish.line_grids import Axis
from leadline.experiments.publish.names import ABSENT, SHARES, dims_name, quantity, with_unit
from leadline.experiments.publish.shown import QUANTITY, Key, Shown, configured, free_dims, heading_of
from leadline.experiments.records.measurement import Dim, Point, reading, resolve
from leadline.experiments.records.record import StoredRecord

Values = dict[float, float]  # by the place on the horizontal axis
Dimensions = tuple[tuple[str, Dim], ...]


def curves_of(spec: FigureSpec, column: Column, entry: StoredRecord) -> dict[Dimensions, Values]:
    """What a record has of a quantity: by its other dimensions, the values along the horizontal axis."""
    curves: dict[Dimensions, Values] = {}
    match spec.kind:
        case "step":
            curve = entry.curve()
            for (name, dims), values in curve.values.items():
                if name == column.quantity:
                    curves[dims] = dict(zip(curve.steps.astype(np.float64).tolist(), values.tolist(), strict=True))
        case "position":
            arrays = entry.arrays()
            for (name, dims), array in arrays.items():
                if name == column.quantity and array.ndim == 1:
                    places = _coordinates(arrays, spec.x, dims, len(array))
                    curves[dims] = dict(zip(places, array.astype(np.float64).tolist(), strict=True))
        case _:
            along = {"length": "length", "layer": "layer", "dim": spec.dim}.get(spec.kind)
            for measurement in entry.record.measurements:
                dims = dict(measurement.dims)
                place = dims.pop(along, None) if along else _swept(spec, entry)
                if measurement.quantity == column.quantity and isinstance(place, int | float) and measurement.value is not None:
                    curves.setdefault(tuple(sorted(dims.items())), {})[float(place)] = measurement.value
    return curves


def _swept(spec: FigureSpec, entry: StoredRecord) -> Dim | None:
    """The configured value along the axis; bars have none, and all their values stand at 0."""
    return 0.0 if spec.key is None else configured(entry.record.config, spec.key)


def _coordinates(arrays: Point, name: str | None, dims: Dimensions, count: int) -> list[float]:
    """The places of an array: the array of that name with most of its dimensions, or the geometric middles of its bins.

    Bins of positions count the tokens that a position sees: 1 at position 0. Without a name places are numbered from 0.
    """
    if name is None:
        return np.arange(count, dtype=np.float64).tolist()
    candidates = [key for key in arrays if key.quantity == name and set(key.dims) <= set(dims)]
    if not candidates:
        return [float("nan")] * count
    places = arrays[max(candidates, key=lambda key: len(key.dims))].astype(np.float64)
    return (np.sqrt((places[:-1] + 1.0) * places[1:]) if len(places) == count + 1 else places).tolist()


def matched(spec: FigureSpec, chosen: Shown, keys: Sequence[str]) -> Iterator[tuple[int, StoredRecord, dict[str, Dim], Values]]:
    """(quantity, record, dimensions, values) of every reading whose dimensions are those of the figure and of its keys."""
    for entry in chosen.finished:
        for index, column in enumerate(spec.quantities):
            fixed = resolve(entry.record, spec.at | column.at)
            reference = None if spec.relative_to is None else resolve(entry.record, spec.relative_to)
            curves = curves_of(spec, column, entry) if fixed is not None else {}
            base = None if reference is None else curves.get(reading("", **reference).dims)
            free = (*keys, *([column.over] if column.over else []))
            for dims, values in curves.items():
                if fixed is None or free_dims(dict(dims), fixed, free) is None:
                    continue
                if reference is not None and (base is None or dict(dims) == reference):
                    continue
                yield index, entry, dict(dims), values if base is None else _less(values, base)


def _less(values: Values, base: Values) -> Values:
    return {place: value - base[place] for place, value in values.items() if place in base}


def key_of(keys: Sequence[str], chosen: Shown, index: int, entry: StoredRecord, dims: Mapping[str, Dim]) -> Key:
    return tuple(index if key == QUANTITY else chosen.value(key, entry.record, dims) for key in keys)


def label_of(keys: Sequence[str], values: Key, spec: FigureSpec, chosen: Shown) -> str:
    """What readers see for the values of keys; what a reading lacks is left out, unless nothing else is said."""
    parts = [
        heading_of(spec.quantities[int(str(value))], chosen) if key == QUANTITY else chosen.text(key, value)
        for key, value in zip(keys, values, strict=True)
        if value is not None
    ]
    absent = [ABSENT[key] for key in keys if key in ABSENT]
    return ", ".join(parts or absent[:1])


def axis_of(column: Column, spec: FigureSpec, chosen: Shown) -> Axis:
    """The axis of a quantity, labelled by its heading and unit."""
    of = quantity(column.quantity, chosen.units)
    label = f"{column.heading} ({of.unit})" if column.heading and of.unit != "1" else column.heading or with_unit(of)
    if spec.relative_to is not None:
        told = {key: value for key, value in spec.relative_to.items() if key not in spec.at}
        label = f"{label}, less {dims_name(told) or 'as trained'}"
    return Axis(label, log="y" in spec.log, share=of.unit in SHARES or spec.relative_to is not None)
