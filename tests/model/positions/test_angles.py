"""Angles, exact where float32 is not; absolute positions, made of them or learned; and tables of layers and coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.attention.mask import NO_WINDOW
from leadline.model.context import grid_positions
from leadline.model.positions.absolute import add_positions, sinusoidal
from leadline.model.positions.angles import Frequencies, angles, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.sections import axial, interleaved_sections, sectioned
from leadline.model.positions.tables import position_tables
from tests.refused import refused

MILLION = 2**20


def errors(positions: np.ndarray, computed: jax.Array, table: np.ndarray) -> np.ndarray:
    """Distance on the circle from float64, whose own error at these positions is below 1e-9 rad."""
    exact = positions[:, None] * table
    return np.abs(np.angle(np.exp(1j * (np.asarray(computed, np.float64) - exact))))


@pytest.mark.parametrize("base", [1e4, 5e5, 1e7])
def test_a_million_tokens_are_turned_to_a_microradian(base):
    """The product of float32 position and float32 frequency would be off by several hundredths of a radian."""
    positions, table = np.arange(0, MILLION, 97), inverse_frequencies(128, base)
    turned = jax.jit(angles)(jnp.asarray(positions)[:, None], fixed_point(table[None]))
    assert errors(positions, turned, table).max() < 1e-6
    naive = jnp.asarray(positions, jnp.float32)[:, None] * jnp.asarray(table, jnp.float32)[None]
    assert errors(positions, naive, table).max() > 0.01


@settings(max_examples=50)
@given(st.integers(0, 2**24 - 1), st.floats(0, 4))
def test_any_position_and_frequency(position, frequency):
    turned = angles(jnp.array([[position]]), fixed_point(np.array([[frequency]])))
    exact = np.array([[np.longdouble(position) * np.longdouble(frequency) % (2 * np.longdouble(np.pi))]], np.float64)
    # 2^24 times the last place of a float64 turn.
    assert np.abs(np.angle(np.exp(1j * (np.asarray(turned, np.float64) - exact)))).max() < 1e-6


def test_coordinates_add_up_and_tokens_may_have_tables_of_their_own():
    table = np.array([[0.5, 0.0, 0.1], [0.0, 2.0, 0.1]])
    turned = np.asarray(angles(jnp.array([[3, 1], [100, 7]]), fixed_point(table)), np.float64)
    np.testing.assert_allclose(np.exp(1j * turned), np.exp(1j * np.array([[1.5, 2.0, 0.4], [50.0, 14.0, 10.7]])), atol=1e-5)
    tables = np.array([[[0.1]], [[0.2]], [[0.3]]])
    np.testing.assert_allclose(angles(jnp.array([[1], [2], [3]]), fixed_point(tables))[:, 0], [0.1, 0.4, 0.9], rtol=1e-6)


def test_the_gradient_of_an_angle_with_a_frequency_is_the_position():
    table = fixed_point(np.array([[0.7, 0.01]]))

    def total(remainder):
        return angles(jnp.array([[5], [11]]), Frequencies(table.units, remainder)).sum()

    np.testing.assert_allclose(jax.grad(total)(table.remainder), [[16, 16]])


def test_sinusoidal_positions_are_sines_and_cosines_in_turn():
    width = 64
    positions = np.array([0, 1, 2, 4095, 32767, 131071, 999_999, MILLION])
    phases = positions[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    expected = np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(len(positions), width)
    np.testing.assert_allclose(sinusoidal(jnp.asarray(positions), width), expected, atol=2e-6)


def test_learned_positions_are_added_in_the_type_of_x():
    table, at = jnp.arange(12, dtype=jnp.float32).reshape(4, 3), jnp.asarray([0, 3, 1])
    y = add_positions(jnp.ones((2, 3, 3), jnp.bfloat16), table, at)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y[1].astype(jnp.float32), 1 + table[at])


TABLE = inverse_frequencies(128, 1e6)
SECTIONS = st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any)


def owners(tables):
    """The coordinate of every pair; an error unless there is exactly one."""
    assert ((tables != 0).sum(axis=0) == 1).all()
    return np.argmax(tables != 0, axis=0)


def test_what_is_not_given_is_absent():
    tables = position_tables(3, 4, 8)
    for name, value in (("decay", 0), ("temperature", 0), ("slopes", 0), ("initial_tokens", 0), ("attention_factor", 1)):
        np.testing.assert_array_equal(getattr(tables, name), value, err_msg=name)
    assert not any(part.any() for part in jax.tree.leaves(tables.frequencies))
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


def test_a_table_may_depend_on_the_place_in_the_text():
    per_token = np.stack([inverse_frequencies(4, base)[None] for base in (10.0, 100.0, 1000.0)])
    tables = position_tables(2, 2, 4, inverse_frequencies=per_token, attention_factor=np.array([[1.0], [1.1], [1.2]]))
    assert tables.frequencies.units.shape == (2, 3, 1, 2)
    np.testing.assert_allclose(tables.attention_factor[1], [[1, 1], [1.1, 1.1], [1.2, 1.2]], rtol=1e-6)


@pytest.mark.parametrize(("size", "coordinates"), [(64, 2), (48, 3), (64, 1)])
def test_axial_gives_every_coordinate_a_whole_spectrum(size, coordinates):
    tables = axial(size, 100.0, coordinates)
    pairs = size // 2 // coordinates
    np.testing.assert_array_equal(owners(tables), np.repeat(np.arange(coordinates), pairs))
    for c in range(coordinates):
        expected = [100.0 ** (-2 * j * coordinates / size) for j in range(pairs)]
        np.testing.assert_allclose(tables[c, c * pairs : (c + 1) * pairs], expected, rtol=1e-12)


@pytest.mark.parametrize("cut", [sectioned, interleaved_sections])
@settings(max_examples=50)
@given(SECTIONS)
def test_every_pair_keeps_its_frequency_for_one_coordinate(cut, sections):
    """Sections are consecutive, or alternate: 24, 20 and 20 of Qwen3-VL are twenty times THW, and four times T."""
    table, count = inverse_frequencies(2 * sum(sections), 1e4), len(sections)
    available = [len(table[c::count]) for c in range(count)]
    if cut is interleaved_sections and any(sections[c] > available[c] for c in range(1, count)):
        with pytest.raises(ValueError, match="is too large"):
            cut(table, sections)
        return
    tables = cut(table, sections)
    assert tables.shape == (count, len(table))
    np.testing.assert_array_equal(tables.sum(axis=0), table)
    expected = np.repeat(np.arange(count), sections)
    if cut is interleaved_sections:
        expected = np.array([i % count if i % count and i // count < sections[i % count] else 0 for i in range(len(table))])
    np.testing.assert_array_equal(owners(tables), expected)


@pytest.mark.parametrize(
    ("tokens", "shape", "expected"),
    [
        (3, (), [[0], [1], [2]]),
        (5, (2,), [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]]),
        (4, (1, 3), [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0]]),
        (0, (3,), np.zeros((0, 2))),
    ],
)
def test_grid_positions(tokens, shape, expected):
    positions = grid_positions(jnp.arange(tokens), shape)
    assert positions.dtype == np.int32
    np.testing.assert_array_equal(positions, expected)


test_wrong_arguments_are_named = refused(
    (lambda: axial(64, 100.0, 3), "head dimension 64 must be 60 or 66"),
    (lambda: axial(2, 100.0, 2), "head dimension 2 must be 4"),
    (lambda: axial(64, 100.0, 0), "at least one coordinate, not 0"),
    (lambda: axial(64, 0.0, 2), "base 0.0 must be positive"),
    (lambda: sectioned(TABLE, [16, 24, 25]), "add up to 65 pairs, the table has 64"),
    (lambda: sectioned(TABLE, []), "one a coordinate"),
    (lambda: sectioned(TABLE, [65, -1]), "none negative"),
    (lambda: interleaved_sections(TABLE, [16, 24, 25]), "add up to 65 pairs, the table has 64"),
    (lambda: interleaved_sections(TABLE, [16, 24, 24]), "1 of 24 pairs is too large: one in 3 of 64 pairs makes 21"),
    (lambda: grid_positions(jnp.arange(4), (2, 0)), r"got \[2, 0\]"),
    (lambda: add_positions(jnp.zeros((1, 5, 3)), jnp.zeros((4, 3)), jnp.arange(5)), "end at 4, the text has 5 tokens"),
    (lambda: sinusoidal(jnp.arange(3), 5), "width 5 must be even"),
)
