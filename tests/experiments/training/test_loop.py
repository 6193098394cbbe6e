"""The loop of a group: what a point of its curves is measured with."""

from pathlib import Path

import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.measure import SinkRate
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import DynamicNtk, NtkAware
from leadline.experiments.records.measurement import reading
from tests.experiments.training.runs import LENGTH, changed, run, stored_in

pytestmark = pytest.mark.usefixtures("in_use")


def test_each_text_of_a_point_has_the_table_of_its_length(corpus: Path, tmp_path: Path) -> None:
    """Sinks are measured on texts that are half as long again as in training. Weights are equal at step 0."""
    settings = {"measure": {"sink": SinkRate(length=3 * LENGTH // 2), "windows": 4}, "train": {"steps": 1}}
    data = TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3)
    scalings = {"dynamic": DynamicNtk(), "fixed": NtkAware(factor=1.5)}
    arms = [
        changed(name, model={"position": Rope(base=100.0, scaling=scaling)}, **settings).model_copy(update={"data": data})
        for name, scaling in scalings.items()
    ]
    run(tmp_path, arms, (0,))
    dynamic, fixed = (stored_in(tmp_path)[name, 0].curve().values for name in scalings)
    assert dynamic[reading("first_token_mass")][0] == fixed[reading("first_token_mass")][0]
    assert dynamic[reading("loss")][0] != fixed[reading("loss")][0]
