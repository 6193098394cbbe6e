"""The two certificates of an interval of bases against naive sums on a grid of it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leadline.model.base_bound.certificates import MANY, Pairs, curvature_bound, decided, open_distances, tangent


def naive_sums(pairs, u, distances):
    """B_m in float64, [distances]."""
    return np.cos(np.outer(distances, pairs.frequencies(u))).sum(axis=1)


def make(head_dim, every=1):
    return Pairs(np.arange(0, head_dim, 2) / head_dim, every)


@given(
    st.sampled_from([2, 4, 6, 32, 128]),
    st.floats(0, 20),
    st.floats(1e-6, 2),
    st.integers(1, 3000),
    st.integers(1, 400),
    st.integers(1, 3),
)
@settings(max_examples=150)
def test_distances_that_are_not_open_stay_positive(head_dim, low, width, start, count, every):
    """On the whole interval; with many widths and starts there are fast, turning and slow pairs among them."""
    pairs = make(head_dim, every)
    opened = open_distances(low, low + width, start, start + count, pairs)
    distances = np.arange(start, start + count)
    assert set(opened) <= set(distances)
    closed = np.setdiff1d(distances, opened)
    for u in np.linspace(low, low + width, 60):
        assert (naive_sums(pairs, u, closed) > 0).all()


@pytest.mark.parametrize("count", [MANY // 2, 10 * MANY], ids=["float64", "float32"])
@pytest.mark.parametrize("every", [1, 3])
def test_the_tangent_is_one_to_within_its_error(count, every):
    pairs, u, half = make(32, every), math.log(3e3), 1e-4
    distances = np.sort(np.random.default_rng(0).choice(np.arange(1.0, 5000.0), count, replace=False))
    value, slope, error = tangent(u, half, distances, pairs)
    assert (np.abs(value - naive_sums(pairs, u, distances)) <= error).all()
    assert (error < 1e-4).all()
    step = 1e-6
    exact = (naive_sums(pairs, u + step, distances) - naive_sums(pairs, u - step, distances)) / (2 * step)
    np.testing.assert_allclose(slope, exact, atol=2e-3 * every)


def test_curvature_bounds_the_second_derivative_and_falls():
    pairs, distances, u, step = make(32), np.arange(100.0, 500.0), math.log(3e3), 1e-4
    first, middle, last = (naive_sums(pairs, x, distances) for x in (u - step, u, u + step))
    bound = curvature_bound(u, distances, pairs)
    assert (np.abs(first - 2 * middle + last) / step**2 <= bound).all()
    assert (curvature_bound(u + 0.1, distances, pairs) < bound).all()


@given(st.floats(1, 12), st.floats(1e-7, 0.05), st.integers(2, 40), st.integers(0, 1000))
@settings(max_examples=100)
def test_what_is_decided_is_so(low, width, count, seed):
    pairs, high = make(32), low + width
    distances = np.sort(np.random.default_rng(seed).choice(np.arange(1.0, 2000.0), count, replace=False))
    decision = decided(low, high, distances, pairs)
    bottom, top = decision.certain
    assume(bottom < top)
    assert low <= bottom
    assert top <= high
    inside = np.array([naive_sums(pairs, u, distances) for u in np.linspace(bottom, top, 50)[1:-1]])
    if decision.feasible:
        assert (inside > -1e-9).all()
    else:
        assert (inside < 1e-9).any(axis=1).all()
    for part, ends in ((decision.open_below, (low, bottom)), (decision.open_above, (top, high))):
        closed = np.setdiff1d(np.arange(count), part)
        if ends[0] < ends[1]:
            outside = np.array([naive_sums(pairs, u, distances[closed]) for u in np.linspace(*ends, 20)])
            assert (outside > 0).all()
