"""Which statistics a layer has, and which of its queries and tokens they count, on traces written by hand."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.measure.layers import START, attention_statistics, layer_statistics
from leadline.experiments.records.measurement import reading
from leadline.model.attention.attention import AttentionStatistics
from leadline.model.block import LayerTrace


def trace(tokens: int, **fields: Any) -> LayerTrace:
    """A layer of two heads whose queries give each of the keys that they see the same attention."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, tokens + 1)
    by_query = jnp.asarray(np.tile(shares, (1, 2, 1)), jnp.float32)
    attention = AttentionStatistics(by_query, jnp.zeros_like(by_query), -jnp.log(by_query), by_query)
    residual, value = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((1, tokens, 4), (1, tokens, 2, 4)))
    parts = {"query": None, "key": None, "gate": None, "value_norm": jnp.linalg.norm(value, axis=-1)} | fields
    return LayerTrace(attention=attention, value=value, residual=residual, **parts)


def test_far_mass_is_of_the_later_half_of_the_queries() -> None:
    statistics = attention_statistics(trace(12))
    np.testing.assert_allclose(statistics[reading("far_mass")], [np.mean(1 / np.arange(7, 13))] * 2, rtol=1e-6)
    np.testing.assert_allclose(statistics[reading("entropy")], [np.mean(np.log(np.arange(1, 13)))] * 2, rtol=1e-6)


def test_gates_under_a_tenth_are_closed() -> None:
    gate = jnp.tile(jnp.array([[0.05, 0.15], [0.3, 0.25]])[None], (1, 6, 1))  # [B, T, gates]
    statistics = layer_statistics(trace(12, gate=gate))
    np.testing.assert_allclose(statistics[reading("gate_mean")], [0.175, 0.2], rtol=1e-6)
    np.testing.assert_allclose(statistics[reading("gate_closed")], [0.5, 0])


def test_norm_ratios_need_a_token_behind_the_first_ones() -> None:
    norms = jnp.ones((1, START + 2, 2)).at[0, 0].set(jnp.array([0.2, 3.0]))
    statistics = layer_statistics(trace(START + 2, value_norm=norms))
    np.testing.assert_allclose(statistics[reading("value_drain_ratio")], [0.2, 3.0], rtol=1e-6)
    assert layer_statistics(trace(START)).keys() == {reading("activation_ratio")}


@pytest.mark.usefixtures("mesh")
def test_statistics_of_keys_need_scores_that_are_products() -> None:
    heads = jnp.asarray(np.random.default_rng(1).normal(size=(1, 12, 2, 4)), jnp.float32)
    of_keys = {"key_norm_ratio", "key_cosine", "key_cosine_others", "logit_gap", "key_outside", "key_dims"}
    with_keys, without = (attention_statistics(trace(12, **fields)) for fields in ({"query": heads, "key": heads}, {}))
    assert with_keys.keys() - without.keys() == {reading(name) for name in of_keys}
