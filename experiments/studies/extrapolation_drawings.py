"""The figures of perplexity by evaluation length and by position: a few arms in one panel, or many in small multiples."""

from collections.abc import Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing, by_length
from experiments.publish.multiples import small_multiples
from experiments.publish.summary import arms
from experiments.record import Record, StoredRecord, read_arrays
from experiments.studies import extrapolation
from experiments.studies.drawings import by_head, finished
from experiments.studies.extrapolation import EXTENSIONS, label, lengths, quantities, trained_length, tuned_arms

# Times the lowest perplexity: a model that guesses bytes evenly stands at 257, and nothing is to be read there.
CEILING = 12


def extrapolation_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Perplexity by evaluation length, over whole windows and over their last positions; by position; sinks by head."""
    kept = finished(stored)
    pairs = extrapolation.extension_arms(_records(kept))
    panels = {}
    for quantity, counted in quantities(_records(kept)).items():
        if quantity == extrapolation.WHOLE or quantity.startswith(f"{extrapolation.WHOLE}_last"):
            title = "whole windows" if quantity == extrapolation.WHOLE else f"{counted} positions"
            bands = [_length_band(kept, quantity, arm, extension, label(arm, extension)) for arm, extension in pairs]
            if drawn := [band for band in bands if band is not None]:
                panels[title] = drawn
    drawings = []
    if panels:
        caption = "Byte perplexity against evaluation length, without fine-tuning: mean and range of the seeds."
        drawings.append(by_length("perplexity_by_length", caption, panels, trained_length(kept[0].record)))
    drawings += _by_position("perplexity_by_position", kept, {label(arm, ext): [(arm, ext, "")] for arm, ext in pairs})
    return [*drawings, *by_head(kept, "extrapolation_by_head", extrapolation.ARMS)]


def encodings_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """One panel an encoding, with its extensions, by length and by position; what fine-tuning changed; sinks by head."""
    kept = finished(stored)
    records = _records(kept)
    tuned = tuned_arms(records)
    shown: dict[str, list[tuple[str, str, str]]] = {}
    for arm, extension in extrapolation.extension_arms(records):
        if arm not in tuned:
            shown.setdefault(label(arm, "none"), []).append((arm, extension, EXTENSIONS.get(extension, extension)))
    drawings = _by_length("encodings_by_length", kept, shown, "without fine-tuning")
    drawings += _by_position("encodings_by_position", kept, shown)
    if again := _before_and_after(records):
        drawings += _by_length("encodings_tuned", kept, again, "before and after fine-tuning")
    return [*drawings, *by_head(kept, "encodings_by_head", extrapolation.ARMS)]


def _records(stored: Sequence[StoredRecord]) -> list[Record]:
    return [entry.record for entry in stored]


def _before_and_after(records: Sequence[Record]) -> dict[str, list[tuple[str, str, str]]]:
    """Each tuned arm, beside the arm that it started from with the same extension, without fine-tuning."""
    shown = {}
    for arm in arms(records, tuple(extrapolation.ARMS)):
        config = next(record.config for record in records if record.arm == arm)
        start, model = config.get("start"), config.get("model")
        if not isinstance(start, dict) or not isinstance(model, dict):
            continue
        position = model.get("position")
        scaling = position.get("scaling") if isinstance(position, dict) else None
        extension = str(scaling.get("kind", "none")) if isinstance(scaling, dict) else "none"
        first = str(start.get("arm"))
        shown[label(arm, "none")] = [(first, extension, "before"), (arm, "none", "after")]
    return shown


def _by_length(
    name: str, stored: Sequence[StoredRecord], shown: dict[str, list[tuple[str, str, str]]], how: str
) -> list[Drawing]:
    panels, marks = {}, {}
    for title, lines in shown.items():
        bands = [_length_band(stored, extrapolation.WHOLE, arm, extension, text) for arm, extension, text in lines]
        if drawn := [band for band in bands if band is not None]:
            panels[title] = drawn
            length = _trained(stored, lines[-1][0])
            if length is not None:
                marks[title] = length
    if not panels:
        return []
    first = [bands[0] for bands in panels.values()]
    caption = f"Byte perplexity over whole windows against evaluation length, {how}: mean and range of the seeds."
    caption += " Dotted: the length trained at; grey: the other panels' black lines."
    return [
        small_multiples(
            name,
            caption,
            panels,
            xlabel="evaluation length (tokens)",
            ylabel="byte perplexity",
            behind=first if len(panels) > 1 else (),
            marks=marks,
            ceiling=_ceiling(panels),
        )
    ]


def _by_position(name: str, stored: Sequence[StoredRecord], shown: dict[str, list[tuple[str, str, str]]]) -> list[Drawing]:
    """The same panels at the longest length: perplexity against the number of tokens that a position sees."""
    spans = lengths(_records(stored))
    if not spans:
        return []
    panels, marks = {}, {}
    for title, lines in shown.items():
        bands = [_position_band(stored, arm, extension, spans[-1], text) for arm, extension, text in lines]
        if drawn := [band for band in bands if band is not None]:
            panels[title] = drawn
            length = _trained(stored, lines[-1][0])
            if length is not None:
                marks[title] = length
    if not panels:
        return []
    caption = (
        f"Byte perplexity against position in windows of {spans[-1]} tokens, in bins of half an octave: mean and range of the"
    )
    caption += " seeds. Dotted: the length trained at."
    return [
        small_multiples(
            name,
            caption,
            panels,
            xlabel="position in the window (tokens)",
            ylabel="byte perplexity",
            behind=[bands[0] for bands in panels.values()] if len(panels) > 1 else (),
            marks=marks,
            ceiling=_ceiling(panels),
        )
    ]


def _ceiling(panels: dict[str, list[Band]]) -> float:
    return CEILING * min(float(np.nanmin(band.y)) for bands in panels.values() for band in bands)


def _trained(stored: Sequence[StoredRecord], arm: str) -> int | None:
    return next((trained_length(entry.record) for entry in stored if entry.record.arm == arm), None)


def _length_band(stored: Sequence[StoredRecord], quantity: str, arm: str, extension: str, text: str) -> Band | None:
    """An extension is drawn from the training length on, where there is nothing to extend yet."""
    records = [entry.record for entry in stored if entry.record.arm == arm]
    names = {span: f"{quantity}.{extension}.{span}" for span in lengths(records, f"{quantity}.{extension}")}
    trained = [length for record in records if (length := trained_length(record)) is not None]
    base = f"{quantity}.none.{trained[0]}" if trained else ""
    if extension != "none" and all(base in record.measurements for record in records):
        names = dict(sorted({trained[0]: base, **names}.items()))
    table = []
    for record in records:
        found = [record.measurements.get(name) for name in names.values()]
        values = [entry.value for entry in found if entry is not None and entry.value is not None]
        if len(values) == len(names):
            table.append(values)
    if not table or not names:
        return None
    return Band(text, np.array(list(names), float), np.array(table, float))


def _position_band(stored: Sequence[StoredRecord], arm: str, extension: str, length: int, text: str) -> Band | None:
    rows, edges = [], None
    for entry in stored:
        arrays = read_arrays(entry.folder) if entry.record.arm == arm else {}
        found = arrays.get(f"loss_by_position.{extension}.{length}")
        edges = arrays.get(f"position_edges.{length}", edges)
        if found is not None and np.all(np.isfinite(found)):
            rows.append(np.exp(found.astype(np.float64)))
    if not rows or edges is None:
        return None
    # The geometric middle of the numbers of tokens, 1 … length, that the positions of a bin see.
    return Band(text, np.sqrt((edges[:-1] + 1.0) * edges[1:]), np.stack(rows))
