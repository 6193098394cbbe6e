"""The figures of the study of base and length, from its records."""

from collections.abc import Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing
from experiments.publish.reach import Curve, by_base, recall_by_distance
from experiments.publish.summary import values
from experiments.record import Record, StoredRecord
from experiments.studies.base_vs_length import Place, chance, last_positions, places, predicted


def base_length_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Recall by distance per base, and perplexity and recall by base."""
    records = [entry.record for entry in stored if entry.record.status == "finished"]
    arms = places(records)
    if not arms:
        return []
    panels: dict[str, list[Curve]] = {}
    for where in arms:
        panels.setdefault(f"trained at {where.length} tokens", []).append(_curve(records, where))
    distance = (
        "Recall by distance: mean and range of the seeds; dashed: the first distance at which B_m of the base is negative."
    )
    base = "Perplexity and recall at the training length by RoPE base: mean and range of the seeds."
    return [
        recall_by_distance("recall_by_distance", distance, panels, chance(records[0])),
        by_base("perplexity_by_base", base, _panels(records, arms)),
    ]


def _curve(records: Sequence[Record], where: Place) -> Curve:
    own = [record for record in records if record.arm == where.arm]
    prefix = f"accuracy.{where.length}."
    names = {name for record in own for name, found in record.measurements.items() if name.startswith(prefix) and _known(found)}
    edges = sorted(int(name.removeprefix(prefix)) for name in names)
    shares = np.array([[record.measurements[f"{prefix}{edge}"].value for edge in edges] for record in own], np.float64)
    label = f"base {where.base:g}"
    lowest = np.array([0, *edges[:-1]]) + 1
    middles = np.sqrt(lowest * np.minimum(edges, where.length))  # of the bins, on a logarithmic axis
    return Curve(Band(label, middles, shares), predicted(own[0]))


def _known(measurement: object) -> bool:
    return getattr(measurement, "value", None) is not None


def _panels(records: Sequence[Record], arms: Sequence[Place]) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    last = last_positions(records)
    quantities = {"byte perplexity": "perplexity", "recall (share of answers)": "recall_accuracy"}
    if last:
        quantities = {"byte perplexity": "perplexity", f"of the last {last.removeprefix('perplexity_last')}": last} | quantities
    return {
        title: {f"trained at {length}": _by_base(records, arms, length, name) for length in sorted({a.length for a in arms})}
        for title, name in quantities.items()
    }


def _by_base(records: Sequence[Record], arms: Sequence[Place], length: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Bases, ascending, and the values of the seeds that finished under all of them, [R, X]."""
    own = [where for where in arms if where.length == length]
    columns = [values(records, where.arm, f"{name}.{length}") for where in own]
    seeds = min(len(column) for column in columns)
    return np.array([where.base for where in own]), np.array([column[:seeds] for column in columns]).T
