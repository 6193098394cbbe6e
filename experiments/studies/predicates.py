"""Predicates of claims that no relation between two terms says. Each takes the records of the arms that its claim selects."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from leadline.experiments.records.decisions import Evidence
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.record import Record
from leadline.tokenization.byte import ByteTokenizer

# A learning rate is too high where the mean loss is this many times that of the best one, or a seed diverges.
UNSTABLE = 1.1
Losses = Mapping[float, Mapping[int, float]]  # learning rate -> seed -> loss


def decoding_converges(records: Sequence[Record]) -> Evidence | None:
    """Margins: the least decrease from layer to layer of the KL divergence [nats] to the final distribution, by seed.

    nostalgebraist 2020 (logit lens). None for fewer than three layers.
    """
    entries = [entry for record in records for entry in record.measurements if entry.quantity == "early_divergence"]
    layers = sorted({int(entry.dims["layer"]) for entry in entries if entry.dims.keys() == {"layer"}})
    rows = [[value_of(record, "early_divergence", layer=layer) for layer in layers] for record in records]
    complete = np.array([row for row in rows if row and None not in row], np.float64)
    if complete.ndim != 2 or len(layers) < 3:
        return None
    text = ", ".join(f"{mean:.3f}" for mean in complete.mean(axis=0))
    return Evidence(f"KL to the final distribution [nats], layer by layer: {text}", tuple(np.min(-np.diff(complete), axis=1)))


def gate_is_stable(records: Sequence[Record]) -> Evidence | None:
    """Margins: the loss without an output gate less that with one, at the first learning rate that is too high without it."""
    return _stable(records, {"gate": "output", "norm_placement": "pre"})


def sandwich_is_stable(records: Sequence[Record]) -> Evidence | None:
    """Margins: the loss of pre-norm less that of a sandwich norm, at the first learning rate that is too high for it."""
    return _stable(records, {"gate": "none", "norm_placement": "sandwich"})


def _stable(records: Sequence[Record], settings: Mapping[str, str]) -> Evidence | None:
    plain, other = _losses(records, {"gate": "none", "norm_placement": "pre"}), _losses(records, settings)
    if not plain or not other:
        return None
    means = {rate: float(np.mean(list(losses.values()))) for rate, losses in sorted(plain.items())}
    best = min(means, key=lambda rate: means[rate])
    rate = next((rate for rate in means if rate > best and means[rate] > UNSTABLE * means[best]), None)
    if rate is None:
        highest = max(means)
        text = f"plain model: loss {means[best]:.3f} at rate {best:g}, {means[highest]:.3f} at {highest:g}"
        return Evidence(text, (), unmet="the plain model is stable at every learning rate")
    seeds = sorted(plain[rate].keys() & other.get(rate, {}).keys())
    margins = tuple(plain[rate][seed] - other[rate][seed] for seed in seeds)
    if not margins:
        return None
    lower = means[rate] - float(np.mean(margins))
    return Evidence(f"loss {means[rate]:.3f} without and {lower:.3f} with it, at rate {rate:g} (best {best:g})", margins)


def _losses(records: Sequence[Record], settings: Mapping[str, str]) -> Losses:
    """The losses of the models with these settings; one that diverged has that of guessing evenly among the bytes."""
    losses: dict[float, dict[int, float]] = {}
    for record in records:
        model: Any = record.config["model"]
        train: Any = record.config["train"]
        if model["gate"]["kind"] == settings["gate"] and model["norm_placement"] == settings["norm_placement"]:
            loss = value_of(record, "loss") if record.status == "finished" else None
            by_seed = losses.setdefault(float(train["learning_rate"]), {})
            by_seed[record.seed] = log(ByteTokenizer().vocabulary_size) if loss is None else loss
    return losses
