"""Which figures each study has: records to bands, grids and curves, which `experiments.publish.figures` draws."""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.data.retrieval.mixture import largest_size
from experiments.data.retrieval.source import sizes_asked
from experiments.data.retrieval.vocabulary import OF_A_SIZE, Task
from experiments.measure.retrieval import wilson
from experiments.publish.figures import (
    Band,
    Drawing,
    Interval,
    b_m,
    base_curves,
    by_length,
    head_map,
    over_training,
    shares_grid,
)
from experiments.publish.summary import arms
from experiments.record import StoredRecord, read_arrays, read_curves
from experiments.studies import extrapolation, retrieval, rope_base, sinks


def _finished(stored: Sequence[StoredRecord]) -> list[StoredRecord]:
    return [entry for entry in stored if entry.record.status == "finished"]


def _curve_band(stored: Sequence[StoredRecord], arm: str, name: str, label: str) -> Band | None:
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


def _by_head(stored: Sequence[StoredRecord], name: str, labels: Mapping[str, str]) -> list[Drawing]:
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
    kept = _finished(stored)
    names = arms([entry.record for entry in kept], tuple(sinks.LABELS))
    bands = [_curve_band(kept, arm, "bos_mass", sinks.LABELS.get(arm, arm)) for arm in names]
    drawings = []
    if drawn := [band for band in bands if band is not None]:
        caption = "Attention to BOS from queries that are no triggers, over training: mean and range of the seeds."
        drawings.append(over_training("sink_over_training", caption, "attention on BOS (share)", drawn))
    return drawings + _by_head(kept, "sink_by_head", sinks.LABELS)


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
    kept = _finished(stored)
    pairs = extrapolation.extension_arms([entry.record for entry in kept])
    panels = {}
    for quantity, counted in extrapolation.quantities([entry.record for entry in kept]).items():
        title = "whole windows" if quantity == extrapolation.WHOLE else f"{counted} positions"
        bands = [_length_band(kept, quantity, arm, extension) for arm, extension in pairs]
        if drawn := [band for band in bands if band is not None]:
            panels[title] = drawn
    by_head = _by_head(kept, "extrapolation_by_head", extrapolation.ARMS)
    if not panels:
        return by_head
    data = kept[0].record.config.get("data")
    length = data.get("length") if isinstance(data, dict) else None
    trained = int(length) if isinstance(length, int | float) else None
    caption = "Byte perplexity against evaluation length, without fine-tuning: mean and range of the seeds."
    return [by_length("perplexity_by_length", caption, panels, trained), *by_head]


# The context at which published bases, the infimum and the bases between differ most within the study.
_SHOWN = ("4k", 4096)


def rope_base_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """B_m at a context of 4k: of RoPE's default base, of the published ones and of one in the first island."""
    arm, length = _SHOWN
    found = [entry for entry in _finished(stored) if entry.record.arm == arm]
    head_dim = found[0].record.config.get("head_dim") if found else None
    if not isinstance(head_dim, int):
        return []
    bases = {"base 10000, RoPE's default": 10000.0}
    for source, entry in rope_base.published_entries(found[0].record):
        value = entry.get("value")
        if isinstance(value, int | float) and float(value) not in bases.values():
            bases[f"base {value:g}, {source}"] = float(value)
    islands = read_arrays(found[0].folder).get("islands")
    if islands is not None and len(islands):
        # The middle of the first island: its lower edge is the infimum, where rounding decides.
        middle = float(np.mean(islands[0]))
        bases[f"base {middle:.0f}, amid the first island of bases that meet the condition"] = middle
    curves = {label: b_m(base, head_dim, length) for label, base in bases.items()}
    caption = f"B_m at every distance below {length}, head dim {head_dim}; red: distances at which it is negative."
    return [base_curves("base_curves", caption, curves)]


_INTERVALS = (
    "Lines: mean of the seeds; areas: from the lowest to the highest end of the seeds' own 95 % intervals (Wilson), which "
    "holds both the draw of the questions and the spread of the seeds."
)


def retrieval_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Accuracy of the mixture over training, by depth at every length, and by the size of what is copied or added."""
    kept = _finished(stored)
    records = [entry.record for entry in kept]
    names = arms(records, tuple(retrieval.ARMS))
    bands = [_curve_band(kept, arm, "accuracy", retrieval.ARMS.get(arm, arm)) for arm in names]
    drawings = []
    if drawn := [band for band in bands if band is not None]:
        caption = "Accuracy of whole answers on the mixture of all tasks, over training: mean and range of the seeds."
        drawings.append(over_training("retrieval_over_training", caption, "right answers (share)", drawn))
    by_depth = {
        retrieval.TITLES[task]: {
            f"{span} tokens": [found for arm in names if (found := _by_depth(kept, arm, task, span)) is not None]
            for span in retrieval.lengths(records, task)
        }
        for task in retrieval.tasks(records)
        if task not in OF_A_SIZE
    }
    if by_depth:
        caption = (
            "Accuracy by the depth of what is asked for (0: first token, 1: last). Tasks with one needle count answers, "
            f"the others tokens of answers. {_INTERVALS}"
        )
        drawings.append(shares_grid("retrieval_by_depth", caption, by_depth, "depth", "right (share)"))
    return [*drawings, *_by_size_drawing(kept, names)]


def _pooled(label: str, x: np.ndarray, shares: Sequence[np.ndarray], counts: Sequence[np.ndarray]) -> Interval:
    """Mean over seeds, and the envelope of the seeds' Wilson intervals; empty bins are left out."""
    share, count = np.array(shares), np.array(counts, np.int64)
    full = (count > 0).all(axis=0)
    share, count = share[:, full], count[:, full]
    low, high = wilson(np.rint(share * count), count)
    return Interval(label, x[full], share.mean(axis=0), low.min(axis=0), high.max(axis=0))


def _by_depth(stored: Sequence[StoredRecord], arm: str, task: str, span: int) -> Interval | None:
    arrays = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
    for prefix in ("", "token_"):
        share, count = f"{prefix}accuracy_by_depth.{task}.{span}", f"{prefix}count_by_depth.{task}.{span}"
        if found := [entry for entry in arrays if share in entry and count in entry]:
            bins = len(found[0][share])
            # Answers were asked at the points of a grid; tokens fall into equal bins, drawn at their middles.
            x = (np.arange(bins) + 0.5) / bins if prefix else np.linspace(0.0, 1.0, bins)
            label = retrieval.ARMS.get(arm, arm)
            return _pooled(label, x, [entry[share] for entry in found], [entry[count] for entry in found])
    return None


def _by_size_drawing(stored: Sequence[StoredRecord], names: Sequence[str]) -> list[Drawing]:
    """One line an arm through the sizes of all lengths, with the largest size of training marked."""
    records = [entry.record for entry in stored]
    data = records[0].config.get("data") if records else None
    length = data.get("length") if isinstance(data, dict) else None
    if not isinstance(length, int):
        return []
    rows, marks = {}, {}
    task: Task
    for task in OF_A_SIZE:
        if not retrieval.lengths(records, task):
            continue
        lines = [_by_size(stored, arm, task, length, retrieval.lengths(records, task)) for arm in names]
        rows[retrieval.TITLES[task]] = {"": [line for line in lines if line is not None]}
        marks[retrieval.TITLES[task]] = float(largest_size(task, length) or 0)
    if not rows:
        return []
    caption = f"Accuracy of whole answers by the size of the problem; the dotted line is the largest in training. {_INTERVALS}"
    return [shares_grid("retrieval_by_size", caption, rows, "symbols or digits", "right (share)", marks)]


def _by_size(stored: Sequence[StoredRecord], arm: str, task: Task, trained: int, spans: Sequence[int]) -> Interval | None:
    arrays = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
    found = [entry for entry in arrays if all(f"accuracy_by_size.{task}.{span}" in entry for span in spans)]
    if not found:
        return None
    sizes, shares, counts = [], [[] for _ in found], [[] for _ in found]
    for span in spans:
        sizes.append(sizes_asked(task, trained, span, len(found[0][f"accuracy_by_size.{task}.{span}"])))
        for own, share, count in zip(found, shares, counts, strict=True):
            share.append(own[f"accuracy_by_size.{task}.{span}"])
            count.append(own[f"count_by_size.{task}.{span}"])
    joined = [np.concatenate(share) for share in shares], [np.concatenate(count) for count in counts]
    return _pooled(retrieval.ARMS.get(arm, arm), np.concatenate(sizes), *joined)
