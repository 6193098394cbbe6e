"""Buckets of T5 and the bias that they choose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.linear import draw
from leadline.model.positions.t5 import T5Bias, init_t5_bias, t5_bias, t5_buckets


def test_near_distances_have_a_bucket_each_and_negative_ones_share_the_first():
    np.testing.assert_array_equal(t5_buckets(jnp.arange(-3, 16)), [0, 0, 0, *range(16)])


def test_buckets_widen_and_end_at_the_furthest_distance():
    found = np.asarray(t5_buckets(jnp.arange(200)))
    assert set(found) == set(range(32))
    assert (np.diff(found) >= 0).all()
    widths = np.bincount(found)[16:31]
    assert (np.diff(widths) >= -1).all()  # of a geometric series, rounded to whole distances
    assert widths[-1] > 4 * widths[0]
    assert (found[128:] == 31).all()


def test_an_edge_that_is_a_whole_number_belongs_to_the_further_bucket():
    """ln(d / 2) / ln(32 / 2) · 4 is 1, 2 and 3 at d = 4, 8 and 16, which a rounded quotient may miss."""
    found = t5_buckets(jnp.asarray([3, 4, 7, 8, 15, 16, 31, 32]), buckets=4, furthest=32)
    np.testing.assert_array_equal(found, [2, 2, 2, 3, 3, 3, 3, 3])
    found = t5_buckets(jnp.asarray([7, 8, 15, 16, 31, 32, 63, 64]), buckets=8, furthest=64)
    np.testing.assert_array_equal(found, [4, 5, 5, 6, 6, 7, 7, 7])


@pytest.mark.parametrize(("buckets", "furthest"), [(1, 128), (32, 16)])
def test_impossible_buckets_are_an_error(buckets, furthest):
    with pytest.raises(ValueError, match="at least 2 buckets and furthest >"):
        t5_buckets(jnp.arange(3), buckets=buckets, furthest=furthest)


def test_the_bias_is_the_number_of_the_bucket():
    table = jnp.asarray(np.random.default_rng(0).standard_normal((32, 3)), jnp.float32)
    found = t5_bias(T5Bias(table=table), 300)
    np.testing.assert_array_equal(found, table[t5_buckets(jnp.arange(300))].T)
    assert (found[:, 128:] == found[:, 128:129]).all()


def test_the_gradient_of_a_bucket_is_the_sum_over_its_distances():
    gradient = jax.grad(lambda p: jnp.sum(t5_bias(p, 150)))(T5Bias(table=jnp.zeros((32, 2))))
    counts = np.bincount(t5_buckets(jnp.arange(150)), minlength=32)
    np.testing.assert_array_equal(gradient.table, np.tile(counts[:, None], (1, 2)))


def test_the_table_is_drawn_at_the_width(mesh):  # noqa: ARG001
    table = draw(jax.random.key(0), init_t5_bias(64, 256)).table
    assert table.shape == (32, 64)
    assert float(jnp.std(table)) == pytest.approx(1 / 16, rel=0.1)
    with pytest.raises(ValueError, match="at least 2 buckets, got 1"):
        init_t5_bias(64, 256, buckets=1)
