"""Attention matrices against the statistics of attention, which never holds one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.measure.trained import attention_map
from leadline.model.attention.attention import attention
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores
from tests.model.naive import random_heads

pytestmark = pytest.mark.usefixtures("mesh")


@pytest.mark.parametrize("name", ["softmax", "softpick", "relu_by_keys", "sigmoid"])
@pytest.mark.parametrize("cap", [None, 0.5])
def test_columns_and_rows_are_those_of_attention(name: str, cap: float | None) -> None:
    q, k, v = random_heads(0, 1, 9, 4, 2, 8)
    sinks = jnp.array([-jnp.inf, 0.0, 1.0, -2.0]) if name == "softmax" else jnp.full(4, -jnp.inf)
    normalizer, limit = NORMALIZERS[name](jnp.array([-2.0, 1.0])), None if cap is None else jnp.float32(cap)

    def both(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple:
        scores = Scores(sink_logit=sinks, cap=limit, normalizer=normalizer)
        shares = attention_map(q[0], k[0], sinks, normalizer, scale=8**-0.5, cap=limit)
        return shares, attention(q, k, v, scores=scores)[1]

    shares, expected = jax.jit(both)(q, k, v)
    np.testing.assert_allclose(shares[:, :, 0], expected.first[0], atol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), expected.received[0], atol=1e-5)
    assert not np.triu(np.asarray(shares), 1).any()
