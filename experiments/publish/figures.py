"""Figures of a study from its records, as its file describes them."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from leadline.experiments.config.report import Column, FigureSpec
from leadline.experiments.config.study import Study
from leadline.experiments.publish.line_grids import Axis, Line, Panel, line_grid
from leadline.experiments.publish.marks import attention_maps, bars, head_maps, scatter
from leadline.experiments.publish.names import SHARES, axis_name, dims_name, with_unit
from leadline.experiments.publish.readings import matched
from leadline.experiments.publish.shown import QUANTITY, Key, Shown, file_name, free_dims, shown
from leadline.experiments.publish.style import STYLE, Drawing, encode
from leadline.experiments.records.measurement import reading, resolve, value_of
from leadline.experiments.records.record import StoredRecord

# Kinds whose figures read arrays, and not only numbers and curves.
OF_ARRAYS = ("position", "scatter", "head", "attention_map")


def figure(spec: FigureSpec, study: Study, stored: Iterable[StoredRecord]) -> Drawing | None:
    """What a specification describes, drawn from the records of a study among `stored`; None where none has what it shows."""
    draw = {"attention_map": _map, "head": _heads, "scatter": _scatter, "bars": _bars}.get(spec.kind, _lines)
    with mpl.rc_context(STYLE):
        drawn = draw(spec, shown(spec, study, stored))
        return None if drawn is None else encode(file_name(study, spec.name), spec.title, spec.caption, drawn)


def arrays_read(study: Study) -> set[str]:
    """The quantities whose arrays the figures of a study read."""
    specs = [spec for spec in study.figures if spec.kind in OF_ARRAYS]
    return {column.quantity for spec in specs for column in spec.quantities} | {spec.x for spec in specs if spec.x is not None}


def _lines(spec: FigureSpec, chosen: Shown) -> Figure | None:
    """One grid for lengths, steps, values, layers, positions and dimensions."""
    points: dict[tuple[Key, Key], dict[float, list[float]]] = {}
    members: dict[tuple[Key, Key], list[StoredRecord]] = {}
    counted, seen = set[tuple[Key, Key]](), set[Hashable]()
    for index, entry, dims, values in matched(spec, chosen, (*spec.lines, *spec.panels)):
        where = chosen.key(spec.panels, entry.record, dims, index), chosen.key(spec.lines, entry.record, dims, index)
        members.setdefault(where, []).append(entry)
        if spec.quantities[index].above is not None:
            counted.add(where)
        for place, value in values.items():
            if np.isfinite(place) and np.isfinite(value):
                if spec.quantities[index].over is None:
                    chosen.take_apart(f"figure {spec.name!r}", seen, entry.record, where, place)
                points.setdefault(where, {}).setdefault(place, []).append(value)
    ordered = sorted(points, key=lambda where: (chosen.place(spec.panels, where[0]), chosen.place(spec.lines, where[1])))
    x, panels = _across(spec, chosen), []
    for panel, of_panel in groupby(ordered, key=lambda where: where[0]):
        places = list(of_panel)
        lines = [
            _line(spec, chosen.label(spec.lines, at[1]), points[at], _mark(spec, members[at]), counted=at in counted)
            for at in places
        ]
        lengths = {entry.record.training_length for place in places for entry in members[place]}
        trained = [float(length) for length in lengths if length is not None and x.tokens and len(lengths) == 1]
        title, y = _heading(spec, panel, chosen)
        panels.append(Panel(title, lines, y, *trained))
    if not panels:
        return None
    marks = "" if spec.marks is None else chosen.heading(spec.marks)
    return line_grid(panels, x, spec.columns, sharey=QUANTITY not in spec.panels, marks=marks, behind=spec.behind)


def _line(spec: FigureSpec, label: str, points: Mapping[float, Sequence[float]], mark: float | None, *, counted: bool) -> Line:
    places = sorted(points)
    return Line(label, np.array(places), [np.array(points[place]) for place in places], mark, counted, spec.each_seed)


def _mark(spec: FigureSpec, entries: Sequence[StoredRecord]) -> float | None:
    if spec.marks is None:
        return None
    values = [value_of(entry.record, spec.marks.quantity, **spec.marks.at) for entry in entries]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _across(spec: FigureSpec, chosen: Shown) -> Axis:
    match spec.kind:
        case "step" | "layer":
            return Axis(axis_name(spec.kind), linear=True)
        case "position":
            key = spec.x or next(iter(chosen.quantity(spec.quantities[0].quantity).axes), "place")
        case _:
            key = str({"length": "length", "value": spec.key, "dim": spec.dim}[spec.kind])
    in_tokens = key.endswith("length") or chosen.quantity(key).unit == "tokens"
    return Axis(axis_name(key), log="x" in spec.log, tokens=in_tokens)


def _heading(spec: FigureSpec, panel: Key, chosen: Shown) -> tuple[str, Axis]:
    """The title of a panel and its vertical axis: of the quantity that the title names, or of all that the lines tell apart."""
    title = chosen.label(spec.panels, panel)
    if QUANTITY in spec.panels:
        axis = _axis(spec.quantities[int(str(panel[spec.panels.index(QUANTITY)]))], spec, chosen)
        return axis.label if spec.panels == (QUANTITY,) else title, replace(axis, label="")
    axes = [_axis(column, spec, chosen) for column in spec.quantities]
    labels = list(dict.fromkeys(axis.label for axis in axes))
    units = {chosen.quantity(column.quantity).unit for column in spec.quantities}
    names = [label.removesuffix(f" ({unit})") for label in labels for unit in units] if len(units) == 1 else labels
    return title, Axis(", ".join((*names[:-1], labels[-1])), axes[0].log, all(axis.share for axis in axes))


def _bars(spec: FigureSpec, chosen: Shown) -> Figure | None:
    rows = (spec.dim or "arm",)
    lines = tuple(key for key in spec.lines if key not in (*rows, QUANTITY))
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    axes: dict[str, Axis] = {}
    series: dict[str, Any] = {}
    seen = set[Hashable]()
    for index, entry, dims, values in matched(spec, chosen, (*rows, *lines)):
        title = chosen.heading(spec.quantities[index])
        axes[title] = replace(_axis(spec.quantities[index], spec, chosen), log=bool(spec.log))
        row, line = (chosen.label(keys, chosen.key(keys, entry.record, dims, index)) for keys in (rows, lines))
        series[line] = chosen.place(lines, chosen.key(lines, entry.record, dims, index))
        if spec.quantities[index].over is None:
            chosen.take_apart(f"figure {spec.name!r}", seen, entry.record, title, row, line)
        panels.setdefault(title, {}).setdefault(row, {}).setdefault(line, []).extend(values.values())
    shared = len({column.quantity for column in spec.quantities}) == 1
    return bars(panels, axes, sorted(series, key=series.__getitem__), shared=shared) if panels else None


def _arrays(column: Column, spec: FigureSpec, entry: StoredRecord) -> Float[np.ndarray, "..."] | None:
    fixed = resolve(entry.record, spec.at | column.at)
    array = None if fixed is None else entry.arrays().get(reading(column.quantity, **fixed))
    return None if array is None else array.astype(np.float64)


def _map(spec: FigureSpec, chosen: Shown) -> Figure | None:
    """The attention of the first seed, a row per arm."""
    maps: dict[str, dict[str, Float[np.ndarray, "T T"]]] = {}
    for entry in sorted(chosen.finished, key=lambda entry: (chosen.place(("arm",), (entry.record.arm,)), entry.record.seed)):
        label = chosen.label(spec.lines, chosen.key(spec.lines, entry.record, {}))
        if label not in maps and (array := _arrays(spec.quantities[0], spec, entry)) is not None:
            heads = np.ndindex(*array.shape[:2])
            maps[label] = {f"layer {layer + 1}, head {head + 1}": array[layer, head] for layer, head in heads}
    return attention_maps(maps, spec.columns) if maps else None


def _heads(spec: FigureSpec, chosen: Shown) -> Figure | None:
    """A panel for what its keys tell apart, a mean over the seeds."""
    column, panels, seen = spec.quantities[0], dict[Key, list[Float[np.ndarray, "L N"]]](), set[Hashable]()
    for entry in chosen.finished:
        fixed = resolve(entry.record, spec.at | column.at)
        for (name, dims), array in entry.arrays().items():
            if name == column.quantity and array.ndim == 2 and free_dims(dict(dims), fixed, spec.panels) is not None:
                key = chosen.key(spec.panels, entry.record, dict(dims))
                chosen.take_apart(f"figure {spec.name!r}", seen, entry.record, key)
                panels.setdefault(key, []).append(array.astype(np.float64))
    ordered = sorted(panels, key=lambda key: chosen.place(spec.panels, key))
    means = {chosen.label(spec.panels, key): np.mean(panels[key], axis=0) for key in ordered}
    return head_maps(means, _axis(column, spec, chosen)) if means else None


def _scatter(spec: FigureSpec, chosen: Shown) -> Figure | None:
    """A mark a head and seed where both quantities are arrays, else a mark a record."""
    column, across = spec.quantities[0], Column(quantity=str(spec.x))
    series: dict[str, list[Float[np.ndarray, "2 P"]]] = {}
    for entry in chosen.finished:
        points = _points(spec, across, column, entry)
        if points is not None:
            series.setdefault(chosen.label(spec.lines, chosen.key(spec.lines, entry.record, {})), []).append(points)
    x = replace(_axis(across, spec, chosen), log="x" in spec.log)
    joined = {label: np.concatenate(points, axis=1) for label, points in series.items()}
    diagonal = chosen.quantity(column.quantity).unit == chosen.quantity(across.quantity).unit == "tokens"
    return scatter(joined, x, _axis(column, spec, chosen), diagonal=diagonal) if series else None


def _points(spec: FigureSpec, across: Column, column: Column, entry: StoredRecord) -> Float[np.ndarray, "2 P"] | None:
    """Both quantities of every head of a record; keys and values that heads share stand for each of them."""
    x, y = _arrays(across, spec, entry), _arrays(column, spec, entry)
    if x is None or y is None:
        numbers = [value_of(entry.record, q.quantity, **(spec.at | q.at)) for q in (across, column)]
        return None if None in numbers else np.array(numbers, np.float64)[:, None]
    heads = max(x.shape[-1], y.shape[-1])
    return np.stack([np.repeat(array, heads // array.shape[-1], axis=-1).ravel() for array in (x, y)])


def _axis(column: Column, spec: FigureSpec, chosen: Shown) -> Axis:
    """The axis of a quantity, labelled by its heading and unit."""
    of = chosen.quantity(column.quantity)
    of = replace(of, label=column.heading or of.label)
    label = with_unit(of)
    if spec.relative_to is not None:
        told = {key: value for key, value in spec.relative_to.items() if key not in spec.at}
        label = f"{label} minus {dims_name(told) or 'as trained'}"
    if column.above is not None:
        is_above = "has exceeded" if spec.kind == "step" else "is above"
        return Axis(f"share of seeds whose {of.heading} {is_above} {column.above:g}", share=True)
    return Axis(label, log="y" in spec.log, share=of.unit in SHARES or spec.relative_to is not None)
