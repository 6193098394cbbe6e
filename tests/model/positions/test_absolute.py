"""Absolute positions, learned and sinusoidal."""

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.positions.absolute import add_positions, sinusoidal
from leadline.model.positions.frequencies import inverse_frequencies


def test_each_position_gets_its_own_vector():
    table = jnp.arange(12, dtype=jnp.float32).reshape(4, 3)
    x = jnp.zeros((2, 3, 3))
    np.testing.assert_array_equal(add_positions(x, table, jnp.asarray([0, 3, 1]))[1], table[jnp.asarray([0, 3, 1])])


def test_the_sum_keeps_the_type_of_x():
    y = add_positions(jnp.zeros((1, 2, 3), jnp.bfloat16), jnp.ones((2, 3)), jnp.arange(2))
    assert y.dtype == jnp.bfloat16


def test_a_text_longer_than_the_table_is_an_error():
    with pytest.raises(ValueError, match="end at 4, the text has 5 tokens"):
        add_positions(jnp.zeros((1, 5, 3)), jnp.zeros((4, 3)), jnp.arange(5))


def test_the_first_positions_of_four_channels():
    expected = [[0, 1, 0, 1], [0.841, 0.540, 0.010, 1.000], [0.909, -0.416, 0.020, 1.000]]
    np.testing.assert_allclose(sinusoidal(jnp.arange(3), 4), expected, atol=5e-4)


@pytest.mark.parametrize("shift", [1, 5, 200])
def test_a_shift_rotates_each_pair(shift):
    here, there = (np.asarray(sinusoidal(jnp.arange(7) + s, 16), np.float64).reshape(7, 8, 2) for s in (0, shift))
    turn = shift * inverse_frequencies(16, 10000.0)
    sin, cos = here[..., 0], here[..., 1]
    rotated = np.stack([sin * np.cos(turn) + cos * np.sin(turn), cos * np.cos(turn) - sin * np.sin(turn)], axis=-1)
    np.testing.assert_allclose(there, rotated, atol=1e-4)


def test_far_positions_keep_their_phase():
    positions = np.array([0, 4095, 32767, 131071, 999_999, 2**20])
    found = np.asarray(sinusoidal(jnp.asarray(positions), 64), np.float64).reshape(len(positions), 32, 2)
    phase = positions[:, None] * inverse_frequencies(64, 10000.0)[None, :]
    error = np.angle((found[..., 1] + 1j * found[..., 0]) * np.exp(-1j * phase))
    assert np.abs(error).max() < 1e-3


def test_an_odd_width_is_an_error():
    with pytest.raises(ValueError, match="width 5 must be even"):
        sinusoidal(jnp.arange(3), 5)
