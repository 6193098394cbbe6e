"""The cache of a whole text: where tokens go, and what it counts. test_generate holds it to one pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.cache.full import FullCache, full_cache

pytestmark = pytest.mark.usefixtures("mesh")


def layer(**sizes) -> FullCache:
    return jax.tree.map(lambda leaf: leaf[0], full_cache(1, 2, 3, 4, **sizes))


def test_tokens_follow_each_other():
    cache = layer(room=5)
    for n in (2, 1):
        tokens = jnp.full((2, n, 3, 4), float(n))
        cache = cache.update(tokens, -tokens, jnp.ones((2, n, 6, 4)))
    assert cache.length == 3
    assert cache.room == 5
    np.testing.assert_array_equal(cache.key[0, 0, :, 0], [2, 2, 1, 0, 0])
    np.testing.assert_array_equal(cache.value, -cache.key)


def test_it_has_a_type_and_key_channels_of_its_own():
    cache = layer(room=2, key_dim=8, dtype="bfloat16")
    cache = cache.update(jnp.ones((2, 1, 3, 8)), jnp.ones((2, 1, 3, 4)), jnp.ones((2, 1, 6, 4)))
    assert cache.key.shape == (2, 3, 2, 8)
    assert cache.key.dtype == cache.value.dtype == jnp.bfloat16
