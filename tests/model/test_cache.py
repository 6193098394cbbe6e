"""The cache: where tokens go, and what it counts. That decoding agrees with one pass is in experiments/test_position_tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.cache import empty_cache, remember


@pytest.mark.usefixtures("mesh")
def test_tokens_follow_each_other():
    cache = jax.tree.map(lambda leaf: leaf[0], empty_cache(1, 2, 5, 3, 4))
    first, second = (jnp.full((2, n, 3, 4), float(n)) for n in (2, 1))
    cache = remember(remember(cache, first, -first), second, -second)
    assert cache.length == 3
    np.testing.assert_array_equal(cache.key[0, :, 0, 0], [2, 2, 1, 0, 0])
    np.testing.assert_array_equal(cache.value, -cache.key)


@pytest.mark.usefixtures("mesh")
def test_it_has_a_type_of_its_own():
    cache = jax.tree.map(lambda leaf: leaf[0], empty_cache(1, 1, 2, 1, 2, "bfloat16"))
    assert remember(cache, jnp.ones((1, 1, 1, 2)), jnp.ones((1, 1, 1, 2))).key.dtype == jnp.bfloat16
