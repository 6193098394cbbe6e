"""The exact bound of the RoPE base against naive sums, dense grids and the figures of the literature."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.base_bound.bound import BaseBound, all_bases, bound_of, joined, parts, restricted, restrictions
from leadline.model.base_bound.sums import similarity_sums, violations
from leadline.model.positions.frequencies import inverse_frequencies
from tests.refused import refused


def base_bound(head_dim: int, length: int, *, every: int = 1) -> BaseBound:
    return bound_of(restricted(all_bases(head_dim, every=every), length))


def naive_sum(base: float, m: int, head_dim: int) -> float:
    return sum(math.cos(m * base ** (-2 * i / head_dim)) for i in range(head_dim // 2))


@given(st.floats(1, 1e7), st.sampled_from([2, 4, 6, 32, 128]), st.integers(1, 700))
@settings(max_examples=40)
def test_sums_equal_naive_cosines(base, head_dim, length):
    expected = [naive_sum(base, m, head_dim) for m in range(length)]
    np.testing.assert_allclose(similarity_sums(inverse_frequencies(head_dim, base), length), expected, atol=1e-10)


def test_sums_keep_their_phase_at_a_million_tokens():
    sums = similarity_sums(inverse_frequencies(128, 6.5e7), 2**20)
    for m in (1, 77_293, 999_999, 2**20 - 1):
        assert sums[m] == pytest.approx(naive_sum(6.5e7, m, 128), abs=1e-7)


# Independent searches on a logarithmic grid: of relative step 1e-5 or finer at d = 128, hence the tolerances.
@pytest.mark.parametrize(
    ("head_dim", "length", "infimum", "largest_infeasible"),
    [
        (128, 1024, 4293.44, 6.02e3),
        (128, 4096, 26952.4, 58789),
        (32, 512, 1.25e4, 1.88e4),
        (64, 1024, 7753, 2.3e4),
        (256, 128, 218, 218),
    ],
)
def test_bounds(head_dim, length, infimum, largest_infeasible):
    bound = base_bound(head_dim, length)
    assert bound.infimum == pytest.approx(infimum, rel=1e-5 if head_dim == 128 else 3e-2)
    assert bound.largest_infeasible == pytest.approx(largest_infeasible, rel=2e-3 if head_dim == 128 else 3e-2)


@pytest.mark.parametrize(("head_dim", "length"), [(128, 2048), (8, 1024), (6, 400)])
def test_edges_are_edges(head_dim, length):
    """Just inside every interval all distances hold, just outside one does not."""
    bound = base_bound(head_dim, length)
    edges = [(low, 1) for low, _ in bound.islands] + [(high, -1) for _, high in bound.islands] + [(bound.largest_infeasible, 1)]
    for edge, inwards in edges:
        inside, outside = edge * (1 + inwards * 1e-8), edge * (1 - inwards * 1e-7)
        assert violations(inverse_frequencies(head_dim, inside), length) is None
        assert violations(inverse_frequencies(head_dim, outside), length) is not None


@given(st.integers(2, 16), st.integers(3, 200), st.integers(1, 5))
@settings(max_examples=12)
def test_agrees_with_a_dense_grid(pairs, length, every):
    bound = base_bound(2 * pairs, length, every=every)
    grid = np.geomspace(1.0, bound.largest_infeasible * 50, 3000)
    frequencies = np.exp(-np.log(grid)[:, None] * np.arange(pairs) / pairs)
    worst = np.min([np.cos(m * frequencies).sum(axis=1) for m in range(0, length, every)], axis=0)
    claimed = grid >= bound.largest_infeasible
    for low, high in bound.islands:
        claimed |= (grid >= low) & (grid <= high)
    edges = np.array([bound.largest_infeasible, *np.ravel(bound.islands)])
    clear = np.abs(grid[:, None] / edges - 1).min(axis=1) > 1e-7
    np.testing.assert_array_equal(claimed[clear], worst[clear] >= 0)


def test_a_search_goes_on_where_it_was_left():
    """By blocks, in two parts, or with every third distance: the same bases, and it says how far it is."""
    for every in (1, 3):
        parts = all_bases(64, every=every)
        seen = [parts.length]
        for length in (200, 512):
            for further in restrictions(parts, length):
                parts = further
                seen.append(parts.length)
        assert seen == sorted(seen)
        assert seen[-1] == 512
        *_, whole = restrictions(all_bases(64, every=every), 512)
        np.testing.assert_allclose(parts.intervals, whole.intervals, rtol=1e-8)
        assert list(restrictions(whole, 512)) == []


def test_every_nth_distance_alone():
    """Of every second distance at d = 4 only 0, 2, ... count: cos 2 + cos(2 / sqrt b) >= 0 needs 2 / sqrt b <= pi - 2."""
    assert base_bound(4, 3, every=2).infimum == pytest.approx((2 / (math.pi - 2)) ** 2, rel=1e-8)
    assert base_bound(4, 2, every=2) == (1.0, 1.0, [])
    violation = violations(inverse_frequencies(128, 1e4), 4096, every=7)
    assert violation is not None
    negative = [m for m in range(0, 4096, 7) if naive_sum(1e4, m, 128) < 0]
    assert (violation.first, violation.number) == (negative[0], len(negative))


def test_every_base_holds_for_two_tokens_and_none_for_a_single_pair_and_more():
    for head_dim in (2, 4, 128):
        assert base_bound(head_dim, 1) == base_bound(head_dim, 2) == (1.0, 1.0, [])
    assert base_bound(2, 3) == base_bound(2, 1000) == (math.inf, math.inf, [])


def test_two_pairs_have_a_ray_set_by_the_best_approximation_of_pi():
    """d = 4: B_355 = cos 355 + cos(355 / sqrt b) >= 0 needs 355 / sqrt b <= |355 - 113 pi|, as 355/113 is nearly pi."""
    bound = base_bound(4, 400)
    assert bound.largest_infeasible == pytest.approx((355 / (355 - 113 * math.pi)) ** 2, rel=1e-5)


def test_counts_of_men_table_4():
    """Frequencies of 5e6, and those of 1e4 with a slow part divided by 8 and the rest of the base that joins it.

    Men et al. 2024, Table 4, distances up to and including 15 * 1024 and 30 * 1024; printed as counts of B_m >= 0.
    """
    pairs = np.arange(64)
    mixed = np.where(pairs >= 44, 1e4 ** (-pairs / 64) / 8, (1e4 * 8 ** (128 / 88)) ** (-pairs / 64))
    for length, expected in [(15 * 1024 + 1, 97), (30 * 1024 + 1, 2554)]:
        assert violations(inverse_frequencies(128, 5e6), length) is None
        violation = violations(mixed, length)
        assert violation is not None
        assert (violation.first, violation.number) == (10264, expected)


def test_pieces_are_restricted_as_the_whole_is():
    bases = restricted(all_bases(64), 300)
    whole = restricted(bases, 1000)
    for count in (1, 3, 50):
        pieces = parts(bases, 1000, count)
        assert len(pieces) <= count
        assert joined(pieces) == bases
        united = joined([restricted(piece, 1000) for piece in pieces])
        assert united.length == whole.length
        np.testing.assert_allclose(united.intervals, whole.intervals, rtol=0, atol=1e-8)


test_wrong_arguments_are_named = refused(
    (lambda: base_bound(3, 8), "head dimension 3 must be even"),
    (lambda: base_bound(4, 8, every=0), "every must be at least 1, not 0"),
    (lambda: inverse_frequencies(4, 0.0), "must be positive"),
    (lambda: similarity_sums(inverse_frequencies(4, 10.0), 0), "length must be at least 1, not 0"),
)
