"""The figures of perplexity along a stream, from the records."""

from collections.abc import Callable, Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing
from experiments.publish.streams import over_stream
from experiments.publish.summary import arms
from experiments.record import StoredRecord, read_arrays
from experiments.studies import streaming
from experiments.studies.drawings import by_head, finished
from experiments.studies.streaming import DENSE, RECOMPUTED, SAMPLED, WHOLE, label, trained_length, ways

# Times the lowest perplexity, where the axis ends: a model that guesses bytes evenly stands at 257.
CEILING = 30
# The first bins hold so few tokens that they show the text, not the model.
FIRST_PLACE = 16


def streaming_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Perplexity over the place in the stream, and as a multiple of re-computation; attention to the first token by head."""
    kept = finished(stored)
    records = [entry.record for entry in kept]
    caches, again = ways(records, WHOLE), [way for way in (RECOMPUTED,) if way in ways(records, SAMPLED)]
    drawings = _along(
        kept,
        "perplexity_over_stream",
        "Byte perplexity over the place in a stream of held-out text, in bins of half an octave, by what the cache keeps: mean "
        "and range of the seeds. Re-computed windows are a sample of each bin. Dotted: the length trained at.",
        "byte perplexity",
        [*again, DENSE, *caches],
        _band,
    )
    drawings += _along(
        kept,
        "stream_against_recomputed",
        "Perplexity over the place in a stream as a multiple of that of a sliding window that is re-computed, on the same "
        "tokens: mean and range of the seeds. Dotted: the length trained at.",
        "perplexity / re-computed",
        caches if again else [],
        _ratio_band,
    )
    return [*drawings, *by_head(kept, "streaming_by_head", streaming.ARMS)]


def _along(
    stored: Sequence[StoredRecord],
    name: str,
    caption: str,
    ylabel: str,
    lines: Sequence[str],
    band_of: Callable[[Sequence[StoredRecord], str, str], Band | None],
) -> list[Drawing]:
    """A panel an arm; no drawing of nothing."""
    records = [entry.record for entry in stored]
    panels, marks = {}, {}
    for arm in arms(records, tuple(streaming.ARMS)):
        if drawn := [band for band in (band_of(stored, arm, way) for way in lines) if band is not None]:
            title = streaming.ARMS.get(arm, arm)
            panels[title] = drawn
            length = next(trained_length(record) for record in records if record.arm == arm)
            if length is not None:
                marks[title] = length
    if not panels:
        return []
    lowest = min(float(np.min(band.y)) for bands in panels.values() for band in bands)
    looks = {"references": (label(RECOMPUTED), label(DENSE)), "dotted": [label(way) for way in lines if "_in_text" in way]}
    return [over_stream(name, caption, panels, ylabel=ylabel, marks=marks, ceiling=CEILING * lowest, **looks)]


def _band(stored: Sequence[StoredRecord], arm: str, way: str) -> Band | None:
    """The perplexity of each bin of places."""
    own = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
    rows = [(arrays, arrays[f"loss_by_position.{way}"]) for arrays in own if f"loss_by_position.{way}" in arrays]
    return _shown(
        way, [arrays.get(f"position_edges.{way}", arrays["position_edges"]) for arrays, _ in rows], [x for _, x in rows]
    )


def _ratio_band(stored: Sequence[StoredRecord], arm: str, way: str) -> Band | None:
    """The perplexity of the re-computed tokens of each bin over what it is re-computed."""
    own = [read_arrays(entry.folder) for entry in stored if entry.record.arm == arm]
    names = (f"sampled_loss_by_position.{way}", f"loss_by_position.{RECOMPUTED}")
    rows = [arrays for arrays in own if all(name in arrays for name in names)]
    return _shown(way, [arrays["position_edges"] for arrays in rows], [arrays[names[0]] - arrays[names[1]] for arrays in rows])


def _shown(way: str, edges: Sequence[np.ndarray], losses: Sequence[np.ndarray]) -> Band | None:
    """exp of the losses [nats] in the bins that every seed has."""
    if not losses:
        return None
    rows, bins = np.stack(losses).astype(np.float64), edges[0]
    shown = np.all(np.isfinite(rows), axis=0) & (bins[:-1] >= FIRST_PLACE)
    if not shown.any():
        return None
    middles = np.sqrt((bins[:-1] + 1.0) * bins[1:])[shown]  # geometric, of the numbers of tokens that a bin's places see
    return Band(label(way), middles, np.exp(rows[:, shown]))
