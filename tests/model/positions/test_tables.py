"""Position tables: the same row a layer, and neutral where nothing is asked for."""

import jax.numpy as jnp
import numpy as np

from model.positions.rope_scaling import inverse_frequencies
from model.positions.tables import NO_WINDOW, position_tables


def test_what_is_not_given_is_absent():
    tables = position_tables(3, 4, 8)
    np.testing.assert_array_equal(tables.inverse_frequencies, np.zeros((3, 4)))
    np.testing.assert_array_equal(tables.slopes, np.zeros((3, 4)))
    np.testing.assert_array_equal(tables.attention_factor, np.ones(3))
    np.testing.assert_array_equal(tables.window, [NO_WINDOW] * 3)


def test_every_layer_has_the_same_row():
    frequencies = inverse_frequencies(8, 1e4)
    tables = position_tables(
        2, 3, 8, inverse_frequencies=frequencies, attention_factor=1.1, slopes=np.array([0.5, 0.25, 0.1]), window=7
    )
    for row in range(2):
        np.testing.assert_array_equal(tables.inverse_frequencies[row], frequencies.astype(np.float32))
        np.testing.assert_array_equal(tables.slopes[row], np.array([0.5, 0.25, 0.1], np.float32))
    np.testing.assert_array_equal(tables.attention_factor, np.full(2, 1.1, np.float32))
    np.testing.assert_array_equal(tables.window, [7, 7])
    assert tables.inverse_frequencies.dtype == tables.slopes.dtype == jnp.float32
    assert tables.window.dtype == jnp.int32


def test_the_absent_window_is_wider_than_any_distance_in_int32():
    assert jnp.int32(NO_WINDOW) - jnp.int32(-1) > 0
