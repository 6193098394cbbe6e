"""The loop of a group: what a point of its curves is measured with, and when a member diverges."""

import math
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.measure import SinkRate
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import DynamicNtk, NtkAware
from leadline.experiments.data.source import CACHE
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.record import NO_CURVE
from leadline.experiments.training.group import run_group
from leadline.experiments.training.loop import note_metrics
from leadline.experiments.training.plan import members_of
from leadline.experiments.training.saving import History
from tests.experiments.training.runs import LENGTH, Watched, changed, run, stored_in

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.mark.slow
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


def test_a_loss_diverges_above_a_multiple_of_the_loss_of_guessing(tmp_path: Path) -> None:
    arm, watched = changed("wild", train={"diverged": 2.0}), Watched()
    group = run_group("sinks", members_of("sinks", [arm], (0, 1), tmp_path, tmp_path / CACHE, watched))
    limit = 2 * math.log(group.sources[0].vocabulary)
    metrics = {
        "loss": np.array([limit - 0.1, limit + 0.1]),
        "finite_layers": np.ones((2, 1), bool),
        "finite_gradients": np.ones((2, 2), bool),
    }
    history = History([NO_CURVE] * 2, [None] * 2)
    np.testing.assert_array_equal(note_metrics(group, 3, metrics, history, watched), metrics["loss"])
    (note,) = watched.notes
    assert note.startswith("sinks: wild, seed 1, diverged: ") and note.endswith(f" above {limit:.2f} nats")
