"""The figures of models that are taken apart: sinks as they form, attention matrices, heads, layers and rates."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from experiments.publish.figures import Band, Drawing, Points
from experiments.publish.panels import line_panels, map_grid, scatter
from experiments.publish.summary import arms
from experiments.record import Record, StoredRecord, read_arrays
from experiments.studies import depth, gate_position, sinks_backcopy, sinks_lm, stability
from experiments.studies.drawings import by_head, curve_band, finished
from experiments.studies.sinks_backcopy import WITH, WITHOUT

# Of sinks_lm: what the maps and the scatters show.
SHOWN = ("softmax", "absent", "k_bias", "learned_logit", "headwise_gate", "softpick", "sigmoid")
BACKCOPY_SHOWN = ("softmax", "learned_logit", "kv_bias", "headwise_gate", "value_gate", "softpick", "sigmoid", "relu_by_keys")


def sinks_lm_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Emergence by arm, attention matrices, heads by layer, value norms against mass."""
    kept, labels = finished(stored), sinks_lm.LABELS
    emergence = _emergence(
        "sinks_lm_over_training",
        "How the sink forms: first-token mass and sink rate of held-out windows over training, mean and range of the seeds.",
        {
            labels.get(arm, arm): [
                curve_band(kept, arm, name, label)
                for name, label in (("first_token_mass", "first-token mass"), ("sink_rate", "sink rate (> 0.3)"))
            ]
            for arm in _names(kept, labels)
        },
    )
    caption = (
        "Attention of every head over the first tokens of a held-out window, the first seed of some arms: a sink is a column."
    )
    maps = _maps("sinks_lm_maps", caption, kept, {arm: labels[arm] for arm in SHOWN})
    values = _values("sinks_lm_values", kept, {arm: labels[arm] for arm in SHOWN})
    return [*emergence, *maps, *by_head(kept, "sinks_lm_by_head", labels), *values]


def gate_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Heads by layer, and value norms against mass where they differ most."""
    kept, labels = finished(stored), gate_position.LABELS
    shown = {arm: labels[arm] for arm in ("softmax", "output_channel", "output_head", "output_static", "value_channel")}
    return [*by_head(kept, "gate_position_by_head", labels), *_values("gate_position_values", kept, shown)]


def depth_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Every quantity over the layers."""
    kept = finished(stored)
    records = [entry.record for entry in kept]
    layers = depth.layers(records)
    panels = {
        heading: _drawn(
            [_over_layers(records, arm, name, layers, depth.LABELS.get(arm, arm)) for arm in _names(kept, depth.LABELS)]
        )
        for name, heading, _ in depth.QUANTITIES
    }
    panels = {heading: bands for heading, bands in panels.items() if bands}
    if not panels or not layers:
        return []
    caption = "What each layer has of the sink and of the answer, of whole held-out windows: mean and range of the seeds."
    drawing = line_panels("depth_by_layer", caption, panels, xlabel="layer", shared=False, columns=4)
    return [drawing, *by_head(kept, "depth_by_head", depth.LABELS)]


def stability_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Loss against the learning rate, of the seeds that did not diverge."""
    records = [entry.record for entry in finished(stored)]
    rates = stability.rates(records)
    bands = _drawn([_over_rates(records, name, rates, label) for name, label in stability.LABELS.items()])
    if not bands:
        return []
    caption = (
        "Held-out loss against the learning rate: mean and range of the seeds; rates at which a seed diverged are left out."
    )
    ticks = [float(rate) for rate in rates]
    return [
        line_panels(
            "stability_by_rate", caption, {"": bands}, xlabel="learning rate", ylabel="loss (nats)", ticks=ticks, columns=1
        )
    ]


def backcopy_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Emergence of every mechanism with BOS and without, attention matrices, value norms against mass."""
    kept, labels = finished(stored), sinks_backcopy.LABELS
    found = {entry.record.arm for entry in kept}
    mechanisms = [arm for arm in labels if f"{arm}{WITH}" in found or f"{arm}{WITHOUT}" in found]
    emergence = _emergence(
        "sinks_backcopy_over_training",
        "Attention on the first token from queries that are no triggers, over training: mean and range of the seeds.",
        {
            labels[arm]: [
                curve_band(kept, f"{arm}{suffix}", "bos_mass", label)
                for suffix, label in ((WITH, "BOS first"), (WITHOUT, "an ordinary token first"))
            ]
            for arm in mechanisms
        },
    )
    shown = {f"{arm}{WITH}": labels[arm] for arm in BACKCOPY_SHOWN}
    caption = "Attention over one held-out sequence of Bigram-Backcopy, the first seed of some mechanisms, with BOS."
    return [
        *emergence,
        *_maps("sinks_backcopy_maps", caption, kept, shown, beside=True),
        *_values("sinks_backcopy_values", kept, shown),
    ]


def _names(stored: Sequence[StoredRecord], labels: Mapping[str, str]) -> list[str]:
    return arms([entry.record for entry in stored], tuple(labels))


def _drawn(bands: Sequence[Band | None]) -> list[Band]:
    return [band for band in bands if band is not None]


def _emergence(name: str, caption: str, panels: Mapping[str, Sequence[Band | None]]) -> list[Drawing]:
    shown = {title: bands for title, found in panels.items() if (bands := _drawn(found))}
    if not shown:
        return []
    top = max(float(np.nanmax(band.y)) for bands in shown.values() for band in bands)
    return [line_panels(name, caption, shown, xlabel="training step", ylabel="share", limits=(0.0, min(1.02, 1.1 * top)))]


def _maps(
    name: str, caption: str, stored: Sequence[StoredRecord], shown: Mapping[str, str], *, beside: bool = False
) -> list[Drawing]:
    """A row an arm and a column a head, or one row of arms with one head each; of the first seed that there is."""
    rows: dict[str, dict[str, np.ndarray]] = {}
    for arm, label in shown.items():
        first = min((entry for entry in stored if entry.record.arm == arm), key=lambda entry: entry.record.seed, default=None)
        found = {} if first is None else read_arrays(first.folder)
        if "attention_map" in found:
            layers, heads = found["attention_map"].shape[:2]
            rows[label] = {
                f"{layer}.{head}": found["attention_map"][layer, head].astype(np.float64)
                for layer in range(layers)
                for head in range(heads)
            }
    if not rows:
        return []
    if beside:
        flat = [(label, next(iter(row.values()))) for label, row in rows.items()]
        rows = {" " * i: dict(flat[start : start + 4]) for i, start in enumerate(range(0, len(flat), 4))}
    return [map_grid(name, caption, rows)]


def _values(name: str, stored: Sequence[StoredRecord], shown: Mapping[str, str]) -> list[Drawing]:
    """One mark a head and seed: what the first token gets, and how small its value is. Shared values stand for each head."""
    series = []
    for arm, label in shown.items():
        mass, ratio = [], []
        for entry in stored:
            arrays = read_arrays(entry.folder) if entry.record.arm == arm else {}
            if {"first_token_mass", "value_norm_ratio"} <= set(arrays):
                own = arrays["first_token_mass"].astype(np.float64)
                groups = own.shape[1] // arrays["value_norm_ratio"].shape[1]
                mass.append(own.ravel())
                ratio.append(np.repeat(arrays["value_norm_ratio"].astype(np.float64), groups, axis=1).ravel())
        if mass:
            series.append(Points(label, np.concatenate(mass), np.concatenate(ratio)))
    if not series:
        return []
    caption = "Norm of the first token's value over the others' mean against the attention it gets, a mark a head and seed."
    labels = {"xlabel": "first-token mass (share)", "ylabel": "value norm ratio"}
    return [scatter(name, caption, series, **labels)]


def _over_layers(records: Sequence[Record], arm: str, name: str, layers: Sequence[int], label: str) -> Band | None:
    names = [depth.by_layer(name, layer) for layer in layers]
    x = [float(layer) for layer in layers]
    return _band(records, lambda record: record.arm == arm, label, x, lambda record: [_value(record, own) for own in names])


def _band(
    records: Sequence[Record],
    chosen: Callable[[Record], bool],
    label: str,
    x: Sequence[float],
    y: Callable[[Record], list[float | None]],
) -> Band | None:
    rows = [values for record in records if chosen(record) and None not in (values := y(record))]
    return Band(label, np.array(x, float), np.array(rows, float)) if rows else None


def _over_rates(records: Sequence[Record], name: str, rates: Sequence[str], label: str) -> Band | None:
    """On the rates at which every seed of the model finished."""
    by_rate = {rate: [r for r in records if r.arm == f"{name}{stability.SUFFIX}{rate}"] for rate in rates}
    most = max((len(found) for found in by_rate.values()), default=0)
    whole = {rate: found for rate, found in by_rate.items() if most and len(found) == most}
    if not whole:
        return None
    losses = [[_value(record, "loss") or np.nan for record in found] for found in whole.values()]
    return Band(label, np.array([float(rate) for rate in whole]), np.array(losses).T)


def _value(record: Record, name: str) -> float | None:
    found = record.measurements.get(name)
    return None if found is None else found.value
