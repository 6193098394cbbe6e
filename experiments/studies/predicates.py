"""Predicates of claims that no relation between two terms says. Each takes the records of the arms that its claim selects."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leadline.experiments.records.decisions import Evidence
from leadline.experiments.records.measurement import value_of
from leadline.experiments.records.record import Record
from leadline.tokenization.byte import ByteTokenizer

# A learning rate is tolerated where the loss is at most this much above that of the best rate [nats].
TOLERANCE = 0.1
# The loss of even guessing [nats].
WORST = math.log(ByteTokenizer().vocabulary_size)
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
    text = f"KL to the final distribution (nats), layer by layer: {', '.join(f'{kl:.3f}' for kl in complete.mean(axis=0))}"
    return Evidence(text, tuple(np.min(-np.diff(complete), axis=1)), mean="mean of the least decrease")


def tolerates_higher_rates(records: Sequence[Record]) -> Evidence | None:
    """Margins: ln of the rate that the changed model tolerates over the rate that the plain one does, by seed.

    The records are of the plain model and of one that differs from it, at several learning rates.
    """
    plain, changed = _losses_of_both(records)
    rates = [tolerated_rate(losses) for losses in plain]
    if rates and all(rate == max(losses) for rate, losses in zip(rates, plain, strict=True)):
        return Evidence("", (), unmet=f"the plain model is within {TOLERANCE} nats of its best up to a rate of {rates[0]:g}")
    return _ratio("tolerated rate", rates, [tolerated_rate(losses) for losses in changed])


def depends_less_on_the_rate(records: Sequence[Record]) -> Evidence | None:
    """Margins: ln of the learning rate sensitivity of the plain model over that of the changed one, by seed.

    The records are of the plain model and of one that differs from it, at several learning rates.
    """
    plain, changed = ([rate_sensitivity(losses) for losses in side] for side in _losses_of_both(records))
    evidence = _ratio("learning rate sensitivity (nats)", plain, changed)
    return evidence and replace(evidence, margins=tuple(-margin for margin in evidence.margins))


def _ratio(name: str, plain: Sequence[float], changed: Sequence[float]) -> Evidence | None:
    if not plain:
        return None
    means = [math.exp(np.mean(np.log(side))) for side in (plain, changed)]
    text = f"{name}: plain model {means[0]:.3g}, changed model {means[1]:.3g}"
    text += f" (geometric means; a model that diverged counts as {WORST:.2f} nats)"
    margins = tuple(math.log(b / a) for a, b in zip(plain, changed, strict=True))
    return Evidence(text, margins, mean="mean log margin")


def rate_sensitivity(losses: Mapping[float, float]) -> float:
    """How far the loss is above that of the best learning rate, in the mean over all rates [nats].

    Equation 1 of Wortsman et al. 2024, where a loss counts as at most that of the first step: here that of even guessing.
    """
    best = min(losses.values())
    return float(np.mean([min(loss, WORST) - best for loss in losses.values()]))


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


def _losses_of_both(records: Sequence[Record]) -> tuple[list[dict[float, float]], list[dict[float, float]]]:
    """Learning rate -> loss of the plain model, and of the changed one, of the seeds that have both at the same rates.

    A model that diverged has the loss of even guessing. One rate says nothing of other rates.
    """
    sides: dict[bool, dict[int, dict[float, float]]] = {True: {}, False: {}}
    for record in records:
        model: Any = record.config["model"]
        train: Any = record.config["train"]
        plain = {**model, "gate": model["gate"]["kind"]}.items() >= PLAIN.items()
        loss = value_of(record, "loss") if record.status == "finished" else None
        by_rate = sides[plain].setdefault(record.seed, {})
        by_rate[float(train["learning_rate"])] = WORST if loss is None else loss
    common = sorted(sides[True].keys() & sides[False].keys())
    seeds = [seed for seed in common if len(sides[True][seed]) > 1 and sides[True][seed].keys() == sides[False][seed].keys()]
    return [sides[True][seed] for seed in seeds], [sides[False][seed] for seed in seeds]
