"""The temperature of Llama 4."""

import jax.numpy as jnp
import numpy as np

from model.positions.temperature import query_scale


def test_it_rises_by_a_logarithm_of_whole_spans():
    found = query_scale(jnp.array([0, 8190, 8191, 16382, 16383]), jnp.float32(0.1), jnp.float32(8192))
    np.testing.assert_allclose(found, 1 + 0.1 * np.log([1, 1, 2, 2, 3]), rtol=1e-6)


def test_no_strength_is_no_temperature():
    np.testing.assert_array_equal(query_scale(jnp.arange(100), jnp.float32(0), jnp.float32(4)), np.ones(100))
