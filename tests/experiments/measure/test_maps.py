"""Attention matrices against the statistics of attention, which never holds one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.measure.maps import attention_map
from model.attention import attention
from model.kernels.kernel import Kernel, weigh
from tests.model.naive import plain, random_heads

pytestmark = pytest.mark.usefixtures("mesh")


@pytest.mark.parametrize("kernel", ["softmax", "softpick", "relu_by_keys", "sigmoid"])
@pytest.mark.parametrize("cap", [None, 0.5])
def test_columns_and_rows_are_those_of_attention(kernel: Kernel, cap: float | None):
    q, k, v = random_heads(0, 1, 9, 4, 2, 8)
    extra = jnp.array([-jnp.inf, 0.0, 1.0, -2.0]) if kernel == "softmax" else jnp.full(4, -jnp.inf)
    own = weigh(kernel, jnp.array([0.0, 1.0]), jnp.float32(-2.0))
    limit = None if cap is None else jnp.float32(cap)

    def both(q, k, v):
        found = attention_map(q[0], k[0], extra, own, scale=8**-0.5, cap=limit)
        return found, attention(q, k, v, **plain(4, extra_logit=extra), weigh=own, cap=limit)[1]

    shares, expected = jax.jit(both)(q, k, v)
    np.testing.assert_allclose(shares[:, :, 0], expected.first[0], atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), expected.received[0], atol=1e-5)
    assert not np.triu(np.asarray(shares), 1).any()
