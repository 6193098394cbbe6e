"""Recall by distance, and the reach that is predicted."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from leadline.experiments.config.position import Alibi, Rope
from leadline.experiments.measure.kinds.recall import accuracy, binned, distance_edges, measured_reach, predicted_reach
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


@pytest.mark.parametrize("length", [4, 100, 2048])
def test_bins_are_half_octaves_that_cover_every_distance_and_have_an_odd_one(length: int) -> None:
    edges = distance_edges(length)
    assert edges == [2, 4, 5, 8, 11, 16, 22, 32, 45, 64, 90, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048][: len(edges)]
    assert edges[-1] >= length > edges[-2]
    assert all(any(distance % 2 for distance in range(low + 1, high + 1)) for low, high in itertools.pairwise([0, *edges]))


def test_a_bin_sums_the_distances_above_the_edge_before_it() -> None:
    np.testing.assert_array_equal(binned(np.arange(12.0)), [1 + 2, 3 + 4, 5, 6 + 7 + 8, 9 + 10 + 11, 0])
    np.testing.assert_array_equal(accuracy(np.array([3.0, 0.0]), np.array([4.0, 0.0])), [0.75, np.nan])


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.9, 1.0, 1.0, 1.0, 1.0], 10),  # never falls: the length
        ([1.0, 1.0, 0.7, 0.6, 0.3], 5),  # half of what 1 is above a chance of 0.25 is reached at 0.625
        ([1.0, 1.0, 0.6, 1.0, 1.0], 4),  # the first time counts
        ([0.3, 0.5, 0.9, 0.9, 0.3], 8),  # what is nearer than the best does not
        ([1.0, np.nan, 0.9, 0.3, 0.3], 5),
        ([0.26, 0.3, 0.2, 0.25, 0.3], 0),  # nothing was learned
    ],
)
def test_reach_is_the_edge_before_recall_falls_below_half(shares: list[float], expected: int) -> None:
    assert measured_reach(np.array(shares), 0.25, 10) == expected
