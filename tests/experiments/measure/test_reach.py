"""Bins of distance and the reach that is read off them."""

import numpy as np
import pytest

from leadline.experiments.measure.reach import accuracy, binned, distance_edges, measured_reach


@pytest.mark.parametrize("length", [4, 100, 128, 2048])
def test_bins_cover_every_distance_and_each_has_an_odd_one(length: int) -> None:
    found = distance_edges(length)
    assert found[-1] >= length > found[-2] if len(found) > 1 else found == [length]
    for low, high in zip([0, *found[:-1]], found, strict=True):
        assert any(distance % 2 for distance in range(low + 1, high + 1))


def test_edges_are_half_octaves() -> None:
    assert distance_edges(64) == [2, 4, 5, 8, 11, 16, 22, 32, 45, 64]


def test_a_bin_sums_the_distances_above_the_edge_before_it() -> None:
    np.testing.assert_array_equal(binned(np.arange(12.0)), [1 + 2, 3 + 4, 5, 6 + 7 + 8, 9 + 10 + 11, 0])
    counts = np.random.default_rng(0).integers(0, 9, 128)
    assert binned(counts).sum() == counts[1:].sum()


def test_accuracy_of_nothing_is_unknown() -> None:
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
