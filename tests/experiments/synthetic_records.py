"""Synthetic records for tests: invented numbers in the form that studies write. Nothing here was measured."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leadline.experiments.config.study import Study
from leadline.experiments.records.measurement import Measurement, Point, reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.records.record import NO_CURVE, Curve, Record, StoredRecord
from leadline.experiments.records.store import record_folder, write_record

LENGTH = 128
STEPS = np.arange(0, 601, 50)


class Stored(StoredRecord):
    """A record with its curve and arrays in memory."""

    def __init__(self, record: Record, curve: Curve = NO_CURVE, arrays: Point | None = None) -> None:
        super().__init__(record, lambda: curve, lambda: arrays or {})


def measured(quantity: str, value: float | None, **dims: int | float | str) -> Measurement:
    """A measurement with the unit of its quantity; "1" where the quantity is in no table."""
    unit = QUANTITIES[quantity].unit if quantity in QUANTITIES else "1"
    return Measurement(quantity, None if value is None else float(value), unit, **dims)


FIELDS: dict[str, Any] = {
    "study": "sinks",
    "arm": "softmax",
    "arm_hash": "0123456789ab",
    "seed": 0,
    "status": "finished",
    "config": {"model": {"layers": 2, "width": 64}, "data": {"kind": "text", "length": LENGTH}, "start": None},
    "data": {"name": "synthetic", "digest": "00"},
    "commit": "0000000000000000",
    "dirty": False,
    "created": "2026-01-02T03:04:05Z",
    "versions": {"python": "0.0.0", "jax": "0.0.0"},
    "device": {"platform": "cpu", "kind": "synthetic", "count": 1},
    "steps": 600,
    "tokens": 1_228_800,
    "seconds": 12.5,
    "flops": 1e12,
    "parameters": 58_000,
    "measurements": (),
}


def made(**changes: Any) -> Record:
    """A valid record of a model, with other fields than these."""
    return Record.model_validate(FIELDS | changes)


def record(study: str, arm: str, seed: int = 0, *measurements: Measurement, **changes: Any) -> Record:
    """A record with the given measurements and fields; `config` is merged into a small one."""
    config = dict(FIELDS["config"])
    for key, value in changes.pop("config", {}).items():
        config[key] = {**config.get(key, {}), **value} if isinstance(value, Mapping) and config.get(key) else value
    base = {"study": study, "arm": arm, "label": arm.replace("_", " "), "seed": seed, "measurements": measurements}
    return made(**(base | {"config": config, "created": f"2026-01-02T03:04:{seed:02d}Z"} | changes))


def entry(study: str, arm: str, seed: int = 0, *measurements: Measurement, **changes: Any) -> Stored:
    """The same without a curve and arrays."""
    return Stored(record(study, arm, seed, *measurements, **changes))


def study(name: str, arms: Mapping[str, Any] | None = None, **parts: Any) -> Study:
    """A study of small models with the given arms, tables, figures and claims."""
    shared = {
        "model": {"position": {"kind": "rope", "base": 10000.0}},
        "data": {"kind": "text", "length": LENGTH},
        "train": {"steps": 600, "batch": 4, "learning_rate": 1e-3},
    }
    return Study.model_validate({"study": name, "arms": dict(arms or {}), **shared, **parts})


ARMS = {
    "softmax": {"label": "softmax", "published": [{"text": "sink rate 34.89 %", "source": "zuhri2025", "where": "Table 3"}]},
    "gate": {"label": "output gate, headwise"},
    "sigmoid": {"label": "sigmoid"},
}
LEVELS = {"softmax": 0.9, "gate": 0.3, "sigmoid": 0.05}


def sinks(arm: str, seed: int) -> Stored:
    """A record with losses, sinks, perplexity by length and extension, curves, and arrays by head and by position."""
    rng = np.random.default_rng([seed, len(arm)])
    level = LEVELS[arm]
    heads = np.clip(level + 0.2 * rng.normal(size=(2, 4)), 0.001, 1.0)
    numbers = [
        measured("loss", 3.0 - 0.1 * level + 0.01 * rng.normal()),
        measured("sink_rate", level),
        measured("first_token_mass", float(heads.mean())),
        measured("windows", 256),
        measured("documents", 34),
    ]
    numbers += [measured("first_token_mass", float(row.mean()), layer=layer) for layer, row in enumerate(heads, start=1)]
    arrays: Point = {reading("first_token_mass"): heads, reading("value_drain_ratio"): 10.0 ** (-2 * heads)}
    for length in (128, 256, 512, 1024):
        edges = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
        arrays[reading("position_edges", length=length)] = edges[edges <= length]
        for extension, slope in (({}, 1.0), ({"extension": "yarn"}, 0.3)):
            numbers.append(
                measured("perplexity", 5.0 * (length / 128) ** (slope * level) + 0.1 * rng.normal(), length=length, **extension)
            )
            losses = np.linspace(3.0, 2.0 + slope * level * np.log2(length / 64), int((edges <= length).sum()) - 1)
            arrays[reading("loss_by_position", length=length, **extension)] = losses
    attention = np.tril(rng.random((2, 4, 16, 16)))
    arrays[reading("attention_map")] = attention / attention.sum(-1, keepdims=True)
    grown = level * (1 - np.exp(-STEPS / 120))
    curves = {"first_token_mass": grown, "sink_rate": grown**2, "loss": 4 - grown}
    curve = Curve(STEPS, {reading(name): values for name, values in curves.items()})
    return Stored(record("sinks", arm, seed, *numbers), curve, arrays)


def sinks_study(**parts: Any) -> tuple[Study, list[Stored]]:
    """A study of three arms with three seeds each."""
    return study("sinks", ARMS, **parts), [sinks(arm, seed) for arm in ARMS for seed in range(3)]


def write_records(results: Path, *records: Stored) -> None:
    """Writes records, with what lies beside them, into their folders."""
    for stored in records:
        record = stored.record
        folder = record_folder(results, record.study, record.arm, record.arm_hash, record.seed)
        write_record(folder, record, stored.curve(), stored.arrays())


PUBLISHED_MODEL = "SmolLM2-135M"


def published_study(claims: Sequence[Mapping[str, Any]]) -> Study:
    """A study of one published model, whose arms `sinks` and `streaming` its selectors find by their kind."""
    exact = {"kind": "precision", "lengths": [1]}  # any: nothing of it is computed
    selectors = {kind: {"kind": kind} for kind in ("sinks", "streaming")}
    return Study.model_validate({"study": "published", "exact": exact, "selectors": selectors, "claims": claims})


def of_published_model(arm: str, *measurements: Measurement) -> Stored:
    """The record of an arm of that study, measured on 100 windows from 34 documents."""
    counts = (measured("windows", 100), measured("documents", 34))
    settings = {"kind": arm, "model": PUBLISHED_MODEL, "source": "package:synthetic"}
    sizes = {"steps": 0, "tokens": 0, "flops": 0, "parameters": 134_515_008}
    digest = f"{len(arm):012x}"
    numbers = (*measurements, *counts)
    return Stored(made(study="published", arm=arm, arm_hash=digest, config=settings, measurements=numbers, **sizes))


def bits(arrays: Mapping[Any, np.ndarray]) -> dict[Any, object]:
    return {key: (array.dtype, array.shape, array.tobytes()) for key, array in arrays.items()}


def flipped(path: Path, every: int = 50) -> Iterator[None]:
    """The file with one bit that is another, here and there in turn, and at the end as it was."""
    whole = path.read_bytes()
    for number, place in enumerate(range(0, len(whole), every)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << number % 8]) + whole[place + 1 :])
        yield
    path.write_bytes(whole)
