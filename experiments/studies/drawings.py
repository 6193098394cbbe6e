"""Which figures each study has: records to bands, grids and curves, which `experiments.publish.figures` draws."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing, by_length, head_map, over_training
from experiments.publish.summary import arms
from experiments.record import StoredRecord, read_arrays, read_curves
from experiments.studies import extrapolation, sinks


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


def _length_band(stored: Sequence[StoredRecord], quantity: str, arm: str, extension: str) -> Band | None:
    records = [entry.record for entry in stored if entry.record.arm == arm]
    spans = extrapolation.lengths(records, f"{quantity}.{extension}")
    table = []
    for record in records:
        found = [record.measurements.get(f"{quantity}.{extension}.{span}") for span in spans]
        values = [entry.value for entry in found if entry is not None and entry.value is not None]
        if len(values) == len(spans):
            table.append(values)
    if not table or not spans:
        return None
    return Band(extrapolation.label(arm, extension), np.array(spans, float), np.array(table, float))


def extrapolation_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Perplexity by evaluation length, over whole windows and over their last positions."""
    kept = finished(stored)
    pairs = extrapolation.extension_arms([entry.record for entry in kept])
    panels = {}
    for quantity, counted in extrapolation.quantities([entry.record for entry in kept]).items():
        title = "whole windows" if quantity == extrapolation.WHOLE else f"{counted} positions"
        bands = [_length_band(kept, quantity, arm, extension) for arm, extension in pairs]
        if drawn := [band for band in bands if band is not None]:
            panels[title] = drawn
    maps = by_head(kept, "extrapolation_by_head", extrapolation.ARMS)
    if not panels:
        return maps
    data = kept[0].record.config.get("data")
    length = data.get("length") if isinstance(data, dict) else None
    trained = int(length) if isinstance(length, int | float) else None
    caption = "Byte perplexity against evaluation length, without fine-tuning: mean and range of the seeds."
    return [by_length("perplexity_by_length", caption, panels, trained), *maps]
