"""What is drawn of a quantity along an axis."""

import numpy as np
import pytest

from leadline.experiments.config.report import FigureSpec
from leadline.experiments.publish.readings import matched, reached
from leadline.experiments.publish.shown import shown
from leadline.experiments.records.measurement import Measurement, reading
from leadline.experiments.records.record import NO_CURVE
from tests.experiments.synthetic_records import Stored, record, study


def test_what_was_once_above_counts_from_then_on() -> None:
    assert reached({300.0: 0.1, 100.0: 0.2, 200.0: 0.4}, above=0.3) == {100.0: 0.0, 200.0: 1.0, 300.0: 1.0}


def test_what_is_above_at_a_length_says_nothing_of_longer_ones() -> None:
    rates = tuple(Measurement("sink_rate", rate, "share", length=length) for length, rate in ((8, 0.9), (16, 0.1)))
    column = {"quantity": "sink_rate", "above": 0.3}
    spec = FigureSpec.model_validate({"kind": "length", "name": "f", "caption": "C.", "quantities": [column]})
    stored = Stored(record("s", "a").model_copy(update={"measurements": rates}), NO_CURVE, {})
    ((_, _, _, values),) = matched(spec, shown(spec, study("s", {"a": {}}), [stored]), ("length",))
    assert values == {8.0: 1.0, 16.0: 0.0}


def test_what_is_relative_stands_at_the_geometric_middles_of_its_bins_less_the_reference() -> None:
    """Of an array of two bins, at position 0 and at positions 1 to 7."""
    losses = {"yarn": [3.0, 2.0], None: [1.0, 1.5]}
    arrays = {
        reading("loss_by_position", length=8, **({"extension": name} if name else {})): np.array(values)
        for name, values in losses.items()
    }
    stored = Stored(record("s", "a"), NO_CURVE, arrays | {reading("position_edges", length=8): np.array([0, 1, 8])})
    settings = {"kind": "position", "name": "f", "caption": "C.", "quantities": ["loss_by_position"], "x": "position_edges"}
    spec = FigureSpec.model_validate({**settings, "relative_to": {"length": 8}})
    ((_, _, dims, values),) = matched(spec, shown(spec, study("s", {"a": {}}), [stored]), ("extension", "length"))
    assert dims == {"length": 8, "extension": "yarn"}
    assert values == pytest.approx({1.0: 2.0, 4.0: 0.5})
