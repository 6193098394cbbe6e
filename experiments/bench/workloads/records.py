"""A sweep of many arms that is on record, with invented numbers: what reading and publishing records take at scale."""

from pathlib import Path

import numpy as np

from leadline.experiments.config.study import Arm
from leadline.experiments.records.measurement import Measurement, reading
from leadline.experiments.records.provenance import Provenance, arm_digest, now, provenance
from leadline.experiments.records.record import Curve, Record
from leadline.experiments.records.store import record_folder, write_record, write_study
from leadline.experiments.studies.run import planned

STUDY = """
study = "sweep"
title = "A sweep of two settings"
seeds = [0]
data = {{ kind = "backcopy", vocabulary = 8, triggers = 2, length = 16 }}
model = {{ layers = 1, width = 8, heads = 2, hidden = 8, position = {{ kind = "rope", base = 100.0 }} }}
train = {{ steps = 6, batch = 3, learning_rate = 1e-2 }}
measure = {{ every = 3, windows = 6, sink.length = 16 }}
tables = [{{ title = "Losses", columns = ["loss", "sink_rate"] }}]
[selectors]
first = {{ "train.learning_rate" = 0.001, "train.weight_decay" = 0.001 }}
[[claims]]
id = "sweep-loss"
statement = "The loss of the first arm is positive."
left = {{ quantity = "loss", arm = "first" }}
relation = "above"
right = 0.0
[sweep]
"train.learning_rate" = {rates}
"train.weight_decay" = {decays}
"""


def write_sweep(folder: Path, arms: int) -> tuple[Path, Path]:
    """Writes the configuration of a sweep of about `arms` arms, and a record of each arm.

    Args:
        folder: for both.
        arms: rounded down to a square.

    Returns:
        The configuration and the folder of the records.
    """
    side = int(arms**0.5)
    settings = [round(1e-3 + 1e-5 * place, 6) for place in range(side)]
    config, results = folder / "sweep.toml", folder / "results"
    config.write_text(STUDY.format(rates=settings, decays=settings), encoding="utf-8")
    ((study, swept),) = planned(config, ())
    origin = provenance()
    write_study(results, study)
    for number, arm in enumerate(swept):
        record = _record(arm, number, origin)
        curve = Curve(np.array([0, 3, 6]), {reading("loss"): np.array([2.1, 1.5, 1.0])})
        write_record(record_folder(results, "sweep", arm.name, record.arm_hash, 0), record, curve, {})
    return config, results


def _record(arm: Arm, number: int, origin: Provenance) -> Record:
    values = {"loss": 1.0 + number % 97 / 100, "sink_rate": number % 89 / 89}
    units = {"loss": "nats", "sink_rate": "1"}
    return Record(
        study="sweep",
        arm=arm.name,
        label=arm.label,
        arm_hash=arm_digest(arm, None, None),
        seed=0,
        status="finished",
        config=arm.model_dump(mode="json"),
        data={"digest": None},
        steps=6,
        tokens=6 * 3 * 16,
        seconds=1.0,
        flops=1e6,
        parameters=1000,
        measurements=tuple(Measurement(name, value, units[name]) for name, value in values.items()),
        created=now(),
        **origin,
    )
