"""Figures of a study from its records, as its file describes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from jaxtyping import Float

from leadline.experiments.config.report import Column, FigureSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.line_grids import Axis, Grid, Line, Panel, line_grid
from leadline.experiments.publish.marks import attention_maps, bars, scatter
from leadline.experiments.publish.names import axis_name, quantity
from leadline.experiments.publish.series import axis_of, key_of, label_of, matched
from leadline.experiments.publish.shown import QUANTITY, Key, Shown, file_name, heading_of, shown
from leadline.experiments.publish.style import Drawing
from leadline.experiments.records.measurement import reading, resolve, value_of
from leadline.experiments.records.record import StoredRecord

# Kinds whose figures read arrays, and not only numbers and curves.
OF_ARRAYS = ("position", "scatter", "attention_map")


def figure(spec: FigureSpec, study: Study, stored: Iterable[StoredRecord]) -> Drawing | None:
    """What a specification describes, drawn from the records of a study among `stored`; None where none has what it shows."""
    chosen = shown(study, stored, spec.where, spec.labels)
    name = file_name(study, spec.name)
    match spec.kind:
        case "attention_map":
            return _map(name, spec, chosen)
        case "scatter":
            return _scatter(name, spec, chosen)
        case "bars":
            return _bars(name, spec, chosen)
        case _:
            return _lines(name, spec, chosen)


def arrays_read(study: Study) -> set[str]:
    """The quantities whose arrays the figures of a study read."""
    read = set()
    for spec in study.figures:
        if spec.kind in OF_ARRAYS:
            read |= {column.quantity for column in spec.quantities} | ({spec.x} if spec.x is not None else set())
    return read


def _lines(name: str, spec: FigureSpec, chosen: Shown) -> Drawing | None:
    """One grid for lengths, steps, values, layers, positions and dimensions."""
    points: dict[tuple[Key, Key], dict[float, list[float]]] = {}
    members: dict[tuple[Key, Key], list[StoredRecord]] = {}
    for index, entry, dims, values in matched(spec, chosen, (*spec.lines, *spec.panels)):
        where = key_of(spec.panels, chosen, index, entry, dims), key_of(spec.lines, chosen, index, entry, dims)
        members.setdefault(where, []).append(entry)
        for place, value in values.items():
            if np.isfinite(place) and np.isfinite(value):
                points.setdefault(where, {}).setdefault(place, []).append(value)
    ordered = sorted(points, key=lambda where: (chosen.place(spec.panels, where[0]), chosen.place(spec.lines, where[1])))
    panels = []
    for panel, of_panel in groupby(ordered, key=lambda where: where[0]):
        places = list(of_panel)
        lines = [_line(label_of(spec.lines, p[1], spec, chosen), points[p], _mark(spec, members[p])) for p in places]
        trained = {entry.record.training_length for place in places for entry in members[place]}
        panels.append(Panel(_title(spec, panel, chosen), lines, _up(spec, panel, chosen), _trained(spec, trained)))
    if not panels:
        return None
    marks = "" if spec.marks is None else heading_of(spec.marks, chosen)
    return line_grid(
        name, spec.caption, panels, _across(spec), Grid(spec.columns, QUANTITY not in spec.panels, marks, spec.behind)
    )


def _title(spec: FigureSpec, panel: Key, chosen: Shown) -> str:
    """The values of a panel's keys; of a quantity its axis."""
    if spec.panels == (QUANTITY,):
        return axis_of(spec.quantities[int(str(panel[0]))], spec, chosen).label
    return label_of(spec.panels, panel, spec, chosen)


def _line(label: str, points: Mapping[float, Sequence[float]], mark: float | None) -> Line:
    x = np.array(sorted(points))
    of_seeds = [np.array(points[place]) for place in x.tolist()]
    y, low, high = (np.array([reduce(values) for values in of_seeds]) for reduce in (np.mean, np.min, np.max))
    return Line(label, x, y, low, high, mark)


def _mark(spec: FigureSpec, entries: Sequence[StoredRecord]) -> float | None:
    if spec.marks is None:
        return None
    values = [value_of(entry.record, spec.marks.quantity, **spec.marks.at) for entry in entries]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _trained(spec: FigureSpec, lengths: set[int | None]) -> float | None:
    """The training length of a panel, on an axis in tokens."""
    in_tokens = spec.kind == "length" or _across(spec).tokens
    length = lengths.pop() if len(lengths) == 1 else None
    return float(length) if in_tokens and length is not None else None


def _across(spec: FigureSpec) -> Axis:
    match spec.kind:
        case "step" | "layer":
            return Axis(axis_name(spec.kind), linear=True)
        case "position":
            key = spec.x or next(iter(quantity(spec.quantities[0].quantity, {}).axes), "place")
        case _:
            key = str({"length": "length", "value": spec.key, "dim": spec.dim}[spec.kind])
    in_tokens = key.endswith("length") or quantity(key, {}).unit == "tokens"
    return Axis(axis_name(key), log="x" in spec.log, tokens=in_tokens)


def _up(spec: FigureSpec, panel: Key, chosen: Shown) -> Axis:
    """The vertical axis of a panel: of its quantity, which its title names, or of all that the lines tell apart."""
    if QUANTITY in spec.panels:
        axis = axis_of(spec.quantities[int(str(panel[spec.panels.index(QUANTITY)]))], spec, chosen)
        return replace(axis, label="")
    axes = [axis_of(column, spec, chosen) for column in spec.quantities]
    labels = list(dict.fromkeys(axis.label for axis in axes))
    units = {quantity(column.quantity, chosen.units).unit for column in spec.quantities}
    names = [label.removesuffix(f" ({unit})") for label in labels for unit in units] if len(units) == 1 else labels
    return Axis(", ".join((*names[:-1], labels[-1])), axes[0].log, all(axis.share for axis in axes))


def _bars(name: str, spec: FigureSpec, chosen: Shown) -> Drawing | None:
    rows = (spec.dim or "arm",)
    lines = tuple(key for key in spec.lines if key not in (*rows, QUANTITY))
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    axes: dict[str, Axis] = {}
    for index, entry, dims, values in matched(spec, chosen, (*rows, *lines)):
        title = heading_of(spec.quantities[index], chosen)
        axes[title] = replace(axis_of(spec.quantities[index], spec, chosen), log=bool(spec.log))
        row = label_of(rows, key_of(rows, chosen, index, entry, dims), spec, chosen)
        line = label_of(lines, key_of(lines, chosen, index, entry, dims), spec, chosen)
        panels.setdefault(title, {}).setdefault(row, {}).setdefault(line, []).extend(values.values())
    return bars(name, spec.caption, panels, axes) if panels else None


def _arrays(column: Column, spec: FigureSpec, entry: StoredRecord) -> Float[np.ndarray, "..."] | None:
    fixed = resolve(entry.record, spec.at | column.at)
    array = None if fixed is None else entry.arrays().get(reading(column.quantity, **fixed))
    return None if array is None else array.astype(np.float64)


def _map(name: str, spec: FigureSpec, chosen: Shown) -> Drawing | None:
    """The attention of the first seed, a row an arm."""
    column = spec.quantities[0]
    rows: dict[str, list[Float[np.ndarray, "..."]]] = {}
    for entry in sorted(chosen.finished, key=lambda entry: (chosen.place(("arm",), (entry.record.arm,)), entry.record.seed)):
        if (array := _arrays(column, spec, entry)) is not None:
            rows.setdefault(label_of(spec.lines, key_of(spec.lines, chosen, 0, entry, {}), spec, chosen), []).append(array)
    if not rows:
        return None
    maps = {
        label: {f"{layer + 1}.{head + 1}": arrays[0][layer, head] for layer, head in np.ndindex(*arrays[0].shape[:2])}
        for label, arrays in rows.items()
    }
    return attention_maps(name, spec.caption, maps, spec.columns)


def _scatter(name: str, spec: FigureSpec, chosen: Shown) -> Drawing | None:
    """A mark a head and seed where both quantities are arrays, else a mark a record."""
    column, across = spec.quantities[0], Column(quantity=str(spec.x), at=spec.quantities[0].at)
    series: dict[str, list[tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]]] = {}
    for entry in chosen.finished:
        points = _points(spec, across, column, entry)
        if points is not None:
            label = label_of(spec.lines, key_of(spec.lines, chosen, 0, entry, {}), spec, chosen)
            series.setdefault(label, []).append(points)
    if not series:
        return None
    joined = {
        label: (np.concatenate([x for x, _ in points]), np.concatenate([y for _, y in points]))
        for label, points in series.items()
    }
    x, y = axis_of(across, spec, chosen), axis_of(column, spec, chosen)
    return scatter(name, spec.caption, joined, Axis(x.label, "x" in spec.log, x.share), y)


def _points(
    spec: FigureSpec, across: Column, column: Column, entry: StoredRecord
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]] | None:
    """Both quantities of every head of a record; keys and values that heads share stand for each of them."""
    x, y = _arrays(across, spec, entry), _arrays(column, spec, entry)
    if x is None or y is None:
        numbers = [value_of(entry.record, q.quantity, **(spec.at | q.at)) for q in (across, column)]
        known = [np.array([number]) for number in numbers if number is not None]
        return (known[0], known[1]) if len(known) == 2 else None
    heads = max(x.shape[-1], y.shape[-1])
    x, y = (np.repeat(array, heads // array.shape[-1], axis=-1).ravel() for array in (x, y))
    return x, y
