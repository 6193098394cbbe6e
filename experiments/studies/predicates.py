"""Predicates of claims that no relation between two terms says. Each takes the records of the arms that its claim selects."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leadline.experiments.records.decisions import Evidence
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.record import Record
from leadline.tokenization.byte import ByteTokenizer

# A learning rate is tolerated where the loss is at most this much above that of the best rate [nats].
TOLERANCE = 0.1
# The settings of the plain model, which others are compared with.
PLAIN = {"gate": "none", "norm_placement": "pre", "qk_norm": False}


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


def gate_tolerates_more(records: Sequence[Record]) -> Evidence | None:
    """Margins: ln of the rate that is tolerated with an output gate over that without."""
    return _tolerating(records, {"gate": "output"})


def sandwich_tolerates_more(records: Sequence[Record]) -> Evidence | None:
    """Margins: ln of the rate that is tolerated with a sandwich norm over that with pre-norm."""
    return _tolerating(records, {"norm_placement": "sandwich"})


def qk_norm_tolerates_more(records: Sequence[Record]) -> Evidence | None:
    """Margins: ln of the rate that is tolerated with normalised queries and keys over that without."""
    return _tolerating(records, {"qk_norm": True})


def _tolerating(records: Sequence[Record], change: Mapping[str, object]) -> Evidence | None:
    plain, changed = _losses(records, PLAIN), _losses(records, {**PLAIN, **change})
    seeds = sorted(plain.keys() & changed.keys())
    if not seeds:
        return None
    rates = {seed: tolerated_rate(plain[seed]) for seed in seeds}
    highest = max(rate for seed in seeds for rate in plain[seed])
    if all(rate == highest for rate in rates.values()):
        return Evidence("", (), unmet=f"the plain model is within {TOLERANCE} nats of its best up to a rate of {highest:g}")
    others = {seed: tolerated_rate(changed[seed]) for seed in seeds}
    means = [math.exp(np.mean([math.log(rate) for rate in side.values()])) for side in (rates, others)]
    text = f"tolerated rate {means[0]:.3g} without and {means[1]:.3g} with it (geometric means)"
    return Evidence(text, tuple(math.log(others[seed] / rates[seed]) for seed in seeds))


def tolerated_rate(losses: Mapping[float, float]) -> float:
    """The largest learning rate, from the best one on, at which the loss is within TOLERANCE of that of the best one.

    Between two rates the loss is taken as linear in the logarithm of the rate; where it stays within, the highest rate.
    """
    best = min(losses, key=lambda rate: losses[rate])
    bound, rates = losses[best] + TOLERANCE, sorted(rate for rate in losses if rate >= best)
    for low, high in itertools.pairwise(rates):
        if losses[high] > bound:
            part = (bound - losses[low]) / (losses[high] - losses[low])
            return low * (high / low) ** part
    return rates[-1]


def _losses(records: Sequence[Record], settings: Mapping[str, object]) -> dict[int, dict[float, float]]:
    """Seed -> learning rate -> loss of the models with these settings. A model that diverged has the loss of even guessing."""
    losses: dict[int, dict[float, float]] = {}
    for record in records:
        model: Any = record.config["model"]
        train: Any = record.config["train"]
        if {**model, "gate": model["gate"]["kind"]}.items() >= settings.items():
            loss = value_of(record, "loss") if record.status == "finished" else None
            by_rate = losses.setdefault(record.seed, {})
            by_rate[float(train["learning_rate"])] = math.log(ByteTokenizer().vocabulary_size) if loss is None else loss
    return losses
