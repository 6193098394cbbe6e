"""Curves as rows of JSON: the readings first, then a row a measured step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leadline.experiments.records.json_file import line, parse
from leadline.experiments.records.measurement import Reading, reading
from leadline.experiments.records.record import Curve

# Significant digits of a value, about the precision of float32. A record holds the last point in full.
DIGITS = 7
NO_CURVE = Curve(np.zeros(0, np.int64), {})


def extended(curve: Curve, step: int, values: Mapping[Reading, float]) -> Curve:
    """The curve with one more point. What one of the two lacks is NaN there."""
    before = len(curve.steps)
    readings = sorted({*curve.values, *values}, key=str)
    absent = np.full(before, np.nan)
    return Curve(
        np.append(curve.steps, step),
        {key: np.append(curve.values.get(key, absent), _rounded(values.get(key, np.nan))) for key in readings},
    )


def until(curve: Curve, step: int) -> Curve:
    """The points up to a step."""
    kept = curve.steps <= step
    return Curve(curve.steps[kept], {key: values[kept] for key, values in curve.values.items()})


def rows_of(curve: Curve) -> list[dict[str, Any]]:
    """The curve as JSON: `{"readings": [{"quantity", "dims"}, …]}`, then `{"step", "values"}` for each point."""
    readings = list(curve.values)
    header = {"readings": [{"quantity": key.quantity, "dims": dict(key.dims)} for key in readings]}
    columns = [curve.values[key] for key in readings]
    rows = [[_rounded(column[i]) for column in columns] for i in range(len(curve.steps))]
    points = zip(curve.steps, rows, strict=True)
    return [header, *({"step": int(step), "values": [v if np.isfinite(v) else None for v in row]} for step, row in points)]


def curve_of(rows: Sequence[Mapping[str, Any]]) -> Curve:
    """The curve of such rows. ValueError for rows of another form."""
    try:
        header, *points = rows
        readings = [reading(entry["quantity"], **entry["dims"]) for entry in header["readings"]]
        table = np.array([point["values"] for point in points], np.float64).reshape(len(points), len(readings))
        steps = np.array([point["step"] for point in points], np.int64)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the rows of a curve ({error})") from error
    return Curve(steps, {key: table[:, i] for i, key in enumerate(readings)})


def text_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows as a file of JSON Lines."""
    return "".join(f"{line(row)}\n" for row in rows).encode()


def rows_of_text(data: bytes) -> list[dict[str, Any]]:
    """The rows of such a file. ValueError naming the line that is not JSON."""
    rows = []
    for number, content in enumerate(data.splitlines(), start=1):
        try:
            rows.append(parse(content))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return rows


def _rounded(value: float) -> float:
    return float(f"{float(value):.{DIGITS}g}")
