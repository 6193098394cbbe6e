"""Which figures each study has: records to bands, grids and curves, which `experiments.publish.figures` draws."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing, head_map, over_training
from experiments.publish.summary import arms
from experiments.record import StoredRecord, read_arrays, read_curves
from experiments.studies import sinks


def finished(stored: Sequence[StoredRecord]) -> list[StoredRecord]:
    """Without those that diverged."""
    return [entry for entry in stored if entry.record.status == "finished"]


def curve_band(stored: Sequence[StoredRecord], arm: str, name: str, label: str) -> Band | None:
    """The curves of an arm's seeds on the steps that all of them measured; None if there is no such step."""
    seeds: list[dict[int, float]] = []
    for entry in stored:
        if entry.record.arm != arm:
            continue
        points = {}
        for point in read_curves(entry.folder):
            step, value = point.get("step"), point.get(name)
            if isinstance(step, int) and isinstance(value, int | float):
                points[step] = float(value)
        seeds.append(points)
    steps = sorted(set.intersection(*(set(points) for points in seeds))) if seeds else []
    if not steps:
        return None
    return Band(label, np.array(steps, float), np.array([[points[step] for step in steps] for points in seeds]))


def by_head(stored: Sequence[StoredRecord], name: str, labels: Mapping[str, str]) -> list[Drawing]:
    """The map of attention to the first token, averaged over seeds; no drawing where no record has the array."""
    grids = {}
    for arm in arms([entry.record for entry in stored], tuple(labels)):
        of_arm = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
        found = [arrays["first_token_mass"] for arrays in of_arm if "first_token_mass" in arrays]
        if found:
            grids[labels.get(arm, arm)] = np.mean(found, axis=0, dtype=np.float64)
    caption = "Mean attention to the first token by arm, layer and head, averaged over all queries and seeds."
    return [head_map(name, caption, grids, "first-token mass (share)")] if grids else []


def sink_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """The mass on BOS over training, and the mass on the first token by layer and head at the end."""
    kept = finished(stored)
    names = arms([entry.record for entry in kept], tuple(sinks.LABELS))
    bands = [curve_band(kept, arm, "bos_mass", sinks.LABELS.get(arm, arm)) for arm in names]
    drawings = []
    if drawn := [band for band in bands if band is not None]:
        caption = "Attention to BOS from queries that are no triggers, over training: mean and range of the seeds."
        drawings.append(over_training("sink_over_training", caption, "attention on BOS (share)", drawn))
    return drawings + by_head(kept, "sink_by_head", sinks.LABELS)
