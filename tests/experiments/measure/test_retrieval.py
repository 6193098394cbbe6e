"""Answers on logits made by hand, and bins counted by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.experiments.measure.retrieval import by_bin, depths, distances, grid_edges, hits, right_answers


def test_an_answer_is_right_if_all_of_its_tokens_are() -> None:
    tokens = jnp.asarray([[5, 1, 2, 3], [5, 1, 2, 3], [5, 1, 2, 3], [5, 0, 2, 3]], jnp.int32)
    said = np.array([[1, 2, 3], [0, 2, 3], [1, 2, 0], [0, 2, 3]])
    logits = jnp.asarray(np.eye(4, dtype=np.float32)[said] * 3 - 1)
    weights = jnp.asarray([[0, 1, 1]] * 3 + [[1, 1, 1]], jnp.float32)
    found = hits(logits, tokens[:, 1:])
    np.testing.assert_array_equal(found, [[1, 1, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]])
    # The second row is wrong where nothing was asked.
    np.testing.assert_array_equal(right_answers(found, weights), [True, True, False, True])


def test_of_equal_logits_the_lowest_id_is_said() -> None:
    tokens = jnp.asarray([[0, 0, 1]], jnp.int32)
    np.testing.assert_array_equal(hits(jnp.zeros((1, 2, 3)), tokens[:, 1:]), [[True, False]])


def test_depth_and_distance_are_of_the_evidence() -> None:
    evidence = np.array([[-1, 0, 1, 3], [-1, -1, 2, 0]])
    np.testing.assert_array_equal(depths(evidence), [[np.nan, 0.0, 0.25, 0.75], [np.nan, np.nan, 0.5, 0.0]])
    np.testing.assert_array_equal(distances(evidence), [[np.nan, 1, 1, 0], [np.nan, np.nan, 0, 3]])


def test_bins_count_what_is_in_them() -> None:
    right = np.array([True, False, True, True, True])
    place = np.array([0.0, 0.2, 0.5, 1.0, np.nan])
    shares, counts = by_bin(right, place, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    np.testing.assert_array_equal(counts, [2, 0, 1, 1])
    np.testing.assert_array_equal(shares, [0.5, np.nan, 1.0, 1.0])


@given(st.integers(2, 60))
def test_each_point_of_a_grid_has_its_bin(points: int) -> None:
    _, counts = by_bin(np.ones(points, bool), np.linspace(0, 1, points), grid_edges(points))
    np.testing.assert_array_equal(counts, 1)


def test_a_grid_has_two_points() -> None:
    with pytest.raises(ValueError, match="a grid of 1 points"):
        grid_edges(1)
