"""Learned absolute positions."""

import jax.numpy as jnp
import numpy as np
import pytest

from model.positions.absolute import add_positions


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
