"""Fixed-point angles: exact where float32 is not. Absolute positions, which are made of them or learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.positions.absolute import add_positions, sinusoidal
from leadline.model.positions.angles import Frequencies, angles, fixed_point
from leadline.model.positions.frequencies import inverse_frequencies

MILLION = 2**20


def errors(positions: np.ndarray, found: jax.Array, table: np.ndarray) -> np.ndarray:
    """Distance on the circle from float64, whose own error at these positions is below 1e-9 rad."""
    exact = positions[:, None] * table
    return np.abs(np.angle(np.exp(1j * (np.asarray(found, np.float64) - exact))))


@pytest.mark.parametrize("base", [1e4, 5e5, 1e7])
def test_a_million_tokens_are_turned_to_a_microradian(base):
    """The product of float32 position and float32 frequency would be off by several hundredths of a radian."""
    positions, table = np.arange(0, MILLION, 97), inverse_frequencies(128, base)
    found = jax.jit(angles)(jnp.asarray(positions)[:, None], fixed_point(table[None]))
    assert errors(positions, found, table).max() < 1e-6
    naive = jnp.asarray(positions, jnp.float32)[:, None] * jnp.asarray(table, jnp.float32)[None]
    assert errors(positions, naive, table).max() > 0.01


@settings(max_examples=50)
@given(st.integers(0, 2**24 - 1), st.floats(0, 4))
def test_any_position_and_frequency(position, frequency):
    found = angles(jnp.array([[position]]), fixed_point(np.array([[frequency]])))
    exact = np.array([[np.longdouble(position) * np.longdouble(frequency) % (2 * np.longdouble(np.pi))]], np.float64)
    # 2^24 times the last place of a float64 turn.
    assert np.abs(np.angle(np.exp(1j * (np.asarray(found, np.float64) - exact)))).max() < 1e-6


def test_coordinates_add_up_and_tokens_may_have_tables_of_their_own():
    table = np.array([[0.5, 0.0, 0.1], [0.0, 2.0, 0.1]])
    found = np.asarray(angles(jnp.array([[3, 1], [100, 7]]), fixed_point(table)), np.float64)
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * np.array([[1.5, 2.0, 0.4], [50.0, 14.0, 10.7]])), atol=1e-5)
    tables = np.array([[[0.1]], [[0.2]], [[0.3]]])
    np.testing.assert_allclose(angles(jnp.array([[1], [2], [3]]), fixed_point(tables))[:, 0], [0.1, 0.4, 0.9], rtol=1e-6)


def test_the_gradient_of_an_angle_with_a_frequency_is_the_position():
    table = fixed_point(np.array([[0.7, 0.01]]))

    def total(remainder):
        return angles(jnp.array([[5], [11]]), Frequencies(table.units, remainder)).sum()

    np.testing.assert_allclose(jax.grad(total)(table.remainder), [[16, 16]])


@pytest.mark.parametrize("width", [2, 64])
def test_sinusoidal_positions_are_sines_and_cosines_in_turn(width):
    positions = np.array([0, 1, 2, 4095, 32767, 131071, 999_999, MILLION])
    phases = positions[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    expected = np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(len(positions), width)
    np.testing.assert_allclose(sinusoidal(jnp.asarray(positions), width), expected, atol=2e-6)


def test_learned_positions_are_added_in_the_type_of_x():
    table, at = jnp.arange(12, dtype=jnp.float32).reshape(4, 3), jnp.asarray([0, 3, 1])
    y = add_positions(jnp.ones((2, 3, 3), jnp.bfloat16), table, at)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y[1].astype(jnp.float32), 1 + table[at])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="end at 4, the text has 5 tokens"):
        add_positions(jnp.zeros((1, 5, 3)), jnp.zeros((4, 3)), jnp.arange(5))
    with pytest.raises(ValueError, match="width 5 must be even"):
        sinusoidal(jnp.arange(3), 5)
