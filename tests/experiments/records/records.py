"""Invented records for the tests of this folder."""

from typing import Any

import numpy as np

from leadline.experiments.records.curve import NO_CURVE, extended
from leadline.experiments.records.measurement import Measurement, Point, measurements_of, reading
from leadline.experiments.records.record import Curve, Record

POINT: Point = {
    reading("loss"): np.asarray(1.25),
    reading("sink_rate"): np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    reading("loss_by_position", length=128): np.linspace(3, 1, 5),
    reading("loss_by_position", length=256, extension="yarn"): np.linspace(4, 1, 7),
}
CURVE: Curve = extended(extended(NO_CURVE, 0, {reading("loss"): 4.5}), 50, {reading("loss"): 2.0, reading("train_loss"): 2.5})


def record(study: str = "sinks", arm: str = "softmax", seed: int = 0, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "study": study,
        "arm": arm,
        "arm_hash": "0123456789ab",
        "seed": seed,
        "status": "finished",
        "config": {"model": {"logit": -np.inf}, "data": {"length": 64}},
        "data": {"name": "synthetic", "digest": "00"},
        "created": "2026-01-02T03:04:05Z",
        "versions": {"jax": "0.0.0"},
        "device": {"platform": "cpu", "kind": "synthetic", "count": 1},
        "steps": 600,
        "tokens": 1_228_800,
        "seconds": 12.5,
        "flops": 1e12,
        "parameters": 58_000,
        "measurements": (*measurements_of(POINT), Measurement("perplexity", np.nan, "1", length=128)),
    }
    return Record.model_validate(fields | changes)
