"""The figures of retrieval: accuracy over training, by depth, and by the size of the problem."""

from collections.abc import Sequence

import numpy as np

from experiments.data.retrieval.mixture import largest_size
from experiments.data.retrieval.source import sizes_asked
from experiments.data.retrieval.vocabulary import OF_A_SIZE, Task
from experiments.measure.retrieval import wilson
from experiments.publish.figures import Drawing, Interval, over_training, shares_grid
from experiments.publish.summary import arms
from experiments.record import StoredRecord, read_arrays
from experiments.studies import retrieval
from experiments.studies.drawings import curve_band, finished

_INTERVALS = (
    "Lines: share of all seeds' answers; areas: its 95 % interval (Wilson) for the draw of questions, the seeds being taken "
    "together."
)


def retrieval_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Accuracy of the mixture over training, by depth at every length, and by the size of what is copied or added."""
    kept = finished(stored)
    records = [entry.record for entry in kept]
    names = arms(records, tuple(retrieval.ARMS))
    bands = [curve_band(kept, arm, "accuracy", retrieval.ARMS.get(arm, arm)) for arm in names]
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
    """The share of all seeds' answers and its Wilson interval; bins that are empty for one of them are left out."""
    share, count = np.array(shares), np.array(counts, np.int64)
    full = (count > 0).all(axis=0)
    right, asked = np.rint(share * count)[:, full].sum(axis=0), count[:, full].sum(axis=0)
    low, high = wilson(right, asked)
    return Interval(label, x[full], right / asked, low, high)


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
    """One line an arm through the sizes that were asked at each length, with the largest size of training marked."""
    records = [entry.record for entry in stored]
    data = records[0].config.get("data") if records else None
    length = data.get("length") if isinstance(data, dict) else None
    if not isinstance(length, int):
        return []
    rows, marks = {}, {}
    task: Task
    for task in OF_A_SIZE:
        if spans := retrieval.lengths(records, task):
            rows[retrieval.TITLES[task]] = {
                f"{span} tokens": [found for arm in names if (found := _by_size(stored, arm, task, length, span)) is not None]
                for span in spans
            }
            marks[retrieval.TITLES[task]] = float(largest_size(task, length) or 0)
    if not rows:
        return []
    caption = f"Accuracy of whole answers by the size of the problem; the dotted line is the largest in training. {_INTERVALS}"
    return [shares_grid("retrieval_by_size", caption, rows, "symbols or digits", "right (share)", marks)]


def _by_size(stored: Sequence[StoredRecord], arm: str, task: Task, trained: int, span: int) -> Interval | None:
    arrays = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
    share, count = f"accuracy_by_size.{task}.{span}", f"count_by_size.{task}.{span}"
    found = [entry for entry in arrays if share in entry and count in entry]
    if not found:
        return None
    sizes = sizes_asked(task, trained, span, len(found[0][share]))
    label = retrieval.ARMS.get(arm, arm)
    return _pooled(label, sizes, [entry[share] for entry in found], [entry[count] for entry in found])
