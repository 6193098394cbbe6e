"""Slopes of ALiBi."""

import numpy as np
import pytest

from leadline.model.positions.alibi import alibi_slopes


def test_powers_of_two_are_a_geometric_series():
    np.testing.assert_allclose(alibi_slopes(8), [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])
    np.testing.assert_allclose(alibi_slopes(1), [2.0**-8])
    np.testing.assert_allclose(alibi_slopes(16)[1::2], alibi_slopes(8))


def test_other_numbers_add_every_second_slope_of_twice_the_power():
    np.testing.assert_allclose(alibi_slopes(12), [*alibi_slopes(8), *alibi_slopes(16)[0:8:2]])
    np.testing.assert_allclose(alibi_slopes(3), [2.0**-4, 2.0**-8, 2.0**-2])


@pytest.mark.parametrize("heads", range(1, 41))
def test_any_number_of_heads_has_that_many_different_slopes(heads):
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,)
    assert len(set(slopes)) == heads
    assert ((slopes > 0) & (slopes < 1)).all()


def test_no_heads_is_an_error():
    with pytest.raises(ValueError, match="at least one head, got 0"):
        alibi_slopes(0)
