"""Recall by distance, and the reach that is predicted."""

from collections.abc import Callable

import numpy as np
import pytest

from leadline.experiments.config.position import Alibi, Rope
from leadline.experiments.measure.kinds.recall import predicted_reach
from leadline.experiments.records.measurement import reading
from leadline.model.base_bound.sums import similarity_sums
from tests.experiments.measure.kinds.conftest import Measured
from tests.experiments.measure.kinds.toys import ROPE, arm

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.mark.parametrize(("length", "edges"), [(16, [2, 4, 5, 8, 11, 16]), (24, [2, 4, 5, 8, 11, 16, 22, 32])])
def test_bins_of_distance_add_up_to_all_answers(measured: Callable[[str], Measured], length: int, edges: list[int]) -> None:
    _, (point, *_) = measured("mixed")
    distances = [
        dict(key.dims).get("distance") for key in point if key.quantity == "answers" and ("length", length) in key.dims
    ]
    assert sorted(distance for distance in distances if distance is not None) == edges
    counts = np.array([point[reading("answers", length=length, distance=edge)] for edge in edges])
    shares = np.array([point[reading("recall_accuracy", length=length, distance=edge)] for edge in edges])
    assert counts.sum() == point[reading("answers", length=length)] > 0
    right = np.sum(np.where(counts > 0, shares, 0) * counts)
    assert point[reading("recall_accuracy", length=length)] == pytest.approx(right / counts.sum())
    windows = point[reading("perplexity", length=length, protocol="windows")]
    assert windows == pytest.approx(float(point[reading("perplexity", length=length)]))  # windows that do not overlap


def test_recall_is_parted_at_the_predicted_reach(measured: Callable[[str], Measured]) -> None:
    models, (point, *_) = measured("mixed")
    reach = point[reading("predicted_reach")]
    assert reach == predicted_reach(models.arms[0])
    assert (reading("recall_accuracy", length=16, part="beyond") in point) == (reach < 16)


@pytest.mark.parametrize("base", [10.0, 1e4])
def test_predicted_reach_is_where_b_m_is_first_negative(base: float) -> None:
    rope = arm("rope", "mixed", ROPE.model_copy(update={"position": Rope(base=base)}))
    sums = similarity_sums(base ** -(np.arange(0, 8, 2) / 8), 1000)
    assert predicted_reach(rope) == np.flatnonzero(sums < 0)[0]
    with pytest.raises(ValueError, match="arm alibi has no RoPE"):
        predicted_reach(arm("alibi", "text", ROPE.model_copy(update={"position": Alibi()})))
