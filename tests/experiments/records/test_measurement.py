"""Records are asked by quantity and dimensions, lengths by the training length of each record."""

from typing import Any

from leadline.experiments.config.report import TrainingLength
from leadline.experiments.records.measurement import select
from leadline.experiments.records.record import Record
from tests.experiments.synthetic_records import FIELDS, measured


def record(length: int, **values: Any) -> Record:
    numbers = tuple(measured("perplexity", value, length=int(tokens), **dims) for tokens, value, dims in values["perplexities"])
    config = {"model": {"layers": 2, "width": 64}, "data": {"kind": "text", "length": length}, "start": None}
    return Record(**{**FIELDS, "config": config, "measurements": numbers})


def test_a_multiple_is_that_of_the_training_length_of_each_record() -> None:
    short = record(64, perplexities=[(64, 3.0, {}), (128, 4.0, {}), (128, 5.0, {"extension": "yarn"})])
    long = record(128, perplexities=[(128, 6.0, {}), (256, None, {})])
    assert list(select([short, long], "perplexity", length=TrainingLength(multiple=1))) == [(short, 3.0), (long, 6.0)]
    assert list(select([short, long], "perplexity", length=TrainingLength(multiple=2))) == [(short, 4.0)]
    assert list(select([short, long], "perplexity", length=128, extension="yarn")) == [(short, 5.0)]
    assert list(select([short, long], "perplexity")) == []
