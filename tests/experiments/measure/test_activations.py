"""Massive activations and gates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from experiments.measure.activations import activation_ratio, gate_mean, gate_share_under, median_of_sizes

median = jax.jit(median_of_sizes)
# A row of each parity, long enough for ties and for numbers of every size; a shape is a compilation.
SHAPES = st.sampled_from([(2, 7), (3, 8), (1, 1), (2, 2)])
# XLA's CPU back end adds subnormal numbers as zeros, so that their mean is not numpy's.
SIZES = st.floats(0, 2**100, width=32, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 2.0])


@settings(deadline=None, max_examples=200)
@given(arrays.arrays(np.float32, SHAPES, elements=SIZES))
def test_median_is_that_of_numpy_bit_for_bit(size: np.ndarray) -> None:
    found, expected = np.array(median(jnp.asarray(size))), np.median(size, axis=1).astype(np.float32)
    for numbers in (found, expected):  # XLA may flush what is below the normal numbers
        numbers[np.abs(numbers) < np.finfo(np.float32).tiny] = 0
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_median_of_what_is_not_finite() -> None:
    size = jnp.array([[1, jnp.nan, 3], [jnp.inf, 1, jnp.inf], [2, jnp.inf, 1]], jnp.float32)
    np.testing.assert_array_equal(median(size), [np.nan, np.inf, 2])


def test_activation_ratio_is_largest_over_median_by_sequence() -> None:
    residual = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    residual[1, 2, 3] = -50
    sizes = np.abs(residual).reshape(3, -1)
    expected = np.mean(sizes.max(axis=1) / np.median(sizes, axis=1))
    assert activation_ratio(jnp.asarray(residual)) == pytest.approx(expected, rel=1e-6)
    assert activation_ratio(jnp.asarray(residual, jnp.bfloat16)) == pytest.approx(expected, rel=1e-2)


def test_gates_of_heads_and_of_channels() -> None:
    gate = np.random.default_rng(1).random((2, 5, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(gate_mean(jnp.asarray(gate)), gate.mean(axis=(0, 1, 3)), rtol=1e-6)
    np.testing.assert_allclose(gate_mean(jnp.asarray(gate[..., 0])), gate[..., 0].mean(axis=(0, 1)), rtol=1e-6)
    share = (gate < 0.1).mean(axis=(0, 1, 3))
    np.testing.assert_allclose(gate_share_under(jnp.asarray(gate), 0.1), share, rtol=1e-6)
    edge = jnp.full((1, 1, 1), 0.1, jnp.float32)
    assert gate_share_under(edge, 0.1).tolist() == [0]
    assert gate_share_under(edge, 0.11).tolist() == [1]
