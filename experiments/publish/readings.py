"""What the records of a study have of the quantities of a figure, along its horizontal axis."""

from collections.abc import Iterator, Sequence

import numpy as np

from leadline.experiments.config.report import Column, FigureSpec
from leadline.experiments.publish.shown import Shown, configured, free_dims
from leadline.experiments.records.measurement import Dim, Point, reading, resolve
from leadline.experiments.records.record import StoredRecord

Values = dict[float, float]  # by the place on the horizontal axis
Dimensions = tuple[tuple[str, Dim], ...]


def matched(spec: FigureSpec, chosen: Shown, keys: Sequence[str]) -> Iterator[tuple[int, StoredRecord, dict[str, Dim], Values]]:
    """(quantity, record, dimensions, values) of every reading whose dimensions are those of the figure and of its keys."""
    for entry in chosen.finished:
        reference = None if spec.relative_to is None else resolve(entry.record, spec.relative_to)
        for index, column in enumerate(spec.quantities):
            curves, fixed = _curves(spec, column, entry), resolve(entry.record, spec.at | column.at)
            base = None if reference is None else curves.get(reading("", **reference).dims)
            free = (*keys, *([column.over] if column.over else []))
            for place, values in curves.items():
                dims = dict(place)
                if free_dims(dims, fixed, free) is None:
                    continue
                if reference is None:
                    yield index, entry, dims, values if column.above is None else _above(spec, values, column.above)
                elif base is not None and dims != reference:
                    yield index, entry, dims, {x: value - base[x] for x, value in values.items() if x in base}


def _curves(spec: FigureSpec, column: Column, entry: StoredRecord) -> dict[Dimensions, Values]:
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
                # bars have no axis: all their values stand at 0
                swept = 0.0 if spec.key is None else configured(entry.record.config, spec.key)
                place = dims.pop(along, None) if along else swept
                if measurement.quantity == column.quantity and isinstance(place, int | float) and measurement.value is not None:
                    curves.setdefault(tuple(sorted(dims.items())), {})[float(place)] = measurement.value
    return curves


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


def _above(spec: FigureSpec, values: Values, above: float) -> Values:
    """1 where the value is above the threshold, along training also after that, and 0 elsewhere."""
    return reached(values, above) if spec.kind == "step" else {x: float(value > above) for x, value in values.items()}


def reached(values: Values, above: float) -> Values:
    """1 from the first place on at which the value is above the threshold, 0 before it."""
    places = sorted(values)
    highest = np.maximum.accumulate([values[place] for place in places])
    return dict(zip(places, (highest > above).astype(np.float64).tolist(), strict=True))
