"""A study of softmax beside a key bias, its records, and the verdict on its claim."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leadline.experiments.config.load import arms_of
from leadline.experiments.config.study import Study
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.records.record import Record
from leadline.experiments.records.verdict import Verdict, verdicts
from tests.experiments.configured import EXTRAPOLATION
from tests.experiments.records.claimed import changed, record

HEAD = f"""{EXTRAPOLATION}
[arms.plain]
[arms.biased]
model.sink = {{ kind = "key_bias" }}
[selectors]
softmax = {{ "model.normalizer" = "softmax", "model.sink" = "none" }}
key_bias = {{ "model.sink" = {{ kind = "key_bias" }} }}
[[claims]]
id = "less"
statement = "A key bias gives a lower sink rate than softmax."
"""
CLAIM = f"""{HEAD}left = {{ quantity = "sink_rate", arm = "key_bias" }}
relation = "below"
right = {{ quantity = "sink_rate", arm = "softmax" }}
"""
EITHER = HEAD.replace("[[claims]]", 'either = { "model.normalizer" = "softmax", "model.sink" = "any" }\n[[claims]]') + (
    'left = { quantity = "sink_rate", arm = "either" }\nrelation = "above"\nright = 0.0\ncases = "arms"\n'
)
WHEN = 'when = [{ term = { quantity = "sink_rate", arm = "softmax" }, relation = "above", value = 0.05, reason = "no sink" }]'
RATES = ((0.5, 0.1), (0.6, 0.2), (0.55, 0.14))
Change = Callable[[list[Record]], Sequence[Record]]


def records_of(study: Study, rates: Sequence[tuple[float, float]] = RATES, **changes: object) -> list[Record]:
    """A record an arm and seed, with the sink rates of `plain` and `biased`."""
    return [
        record(study.study, arm.name, number, seed, arm.model_dump(), **changes).model_copy(
            update={"measurements": (Measurement("sink_rate", row[number], "share"),)}
        )
        for number, arm in enumerate(arms_of(study, Path()))
        for seed, row in enumerate(rates)
    ]


def judged(study: Study, records: Sequence[Record]) -> Verdict:
    (verdict,) = verdicts({study.study: study}, records)
    return verdict


def updated(**fields: Any) -> Change:
    return lambda records: [entry.model_copy(update=fields) for entry in records]


def configured(section: str, **settings: Any) -> Change:
    return lambda records: changed(records, lambda config: config[section].update(settings))
