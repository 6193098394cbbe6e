"""Position tables: the same row a layer, and neutral where nothing is asked for."""

import jax
import jax.numpy as jnp
import numpy as np

from leadline.model.positions.angles import angles
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import NO_WINDOW, by_layer, position_tables


def test_what_is_not_given_is_absent():
    tables = position_tables(3, 4, 8)
    absent = {"decay": (3, 4), "temperature": (3,), "slopes": (3, 4), "initial_tokens": (3,)}
    for name, shape in absent.items():
        np.testing.assert_array_equal(getattr(tables, name), np.zeros(shape), err_msg=name)
    for part in (tables.frequencies.units, tables.frequencies.remainder):
        np.testing.assert_array_equal(part, np.zeros((3, 1, 4), part.dtype))
    np.testing.assert_array_equal(tables.attention_factor, np.ones((3, 4)))
    np.testing.assert_array_equal(tables.window, [NO_WINDOW] * 3)
    assert jnp.int32(NO_WINDOW) - jnp.int32(-1) > 0  # wider than any distance in int32


def test_every_layer_has_the_same_row():
    frequencies, slopes = inverse_frequencies(8, 1e4), np.array([0.5, 0.25, 0.1])
    tables = position_tables(2, 3, 8, inverse_frequencies=frequencies, attention_factor=1.1, slopes=slopes, window=7)
    for row in (jax.tree.map(lambda part, n=n: part[n], tables) for n in range(2)):
        np.testing.assert_allclose(angles(jnp.array([[1]]), row.frequencies)[0], frequencies, rtol=1e-6)
        np.testing.assert_array_equal(row.slopes, slopes.astype(np.float32))
        np.testing.assert_array_equal(row.attention_factor, np.full(4, 1.1, np.float32))
        assert row.window == 7
    assert tables.attention_factor.dtype == tables.slopes.dtype == jnp.float32
    assert tables.window.dtype == jnp.int32


def test_tables_of_two_kinds_take_turns_by_layer():
    with_positions = position_tables(8, 2, 4, inverse_frequencies=inverse_frequencies(4, 100.0))
    mixed = by_layer(with_positions, position_tables(8, 2, 4), every=4)
    np.testing.assert_array_equal(np.asarray(mixed.frequencies.units).any(axis=(1, 2)), [True, True, True, False] * 2)


def test_a_table_may_depend_on_the_place_in_the_text():
    per_token = np.stack([inverse_frequencies(4, base)[None] for base in (10.0, 100.0, 1000.0)])
    tables = position_tables(2, 2, 4, inverse_frequencies=per_token, attention_factor=np.array([[1.0], [1.1], [1.2]]))
    assert tables.frequencies.units.shape == (2, 3, 1, 2)
    np.testing.assert_allclose(tables.attention_factor[1], [[1, 1], [1.1, 1.1], [1.2, 1.2]], rtol=1e-6)
