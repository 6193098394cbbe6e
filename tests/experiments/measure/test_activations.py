"""Massive activations and gates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from leadline.experiments.measure.activations import (
    activation_ratio,
    gate_mean,
    gate_share_under,
    kurtosis,
    massive_activations,
    median_of_sizes,
)

median = jax.jit(median_of_sizes)
tails = jax.jit(kurtosis)
# A row of each parity, long enough for ties and for numbers of every size; a shape is a compilation.
SHAPES = st.sampled_from([(2, 7), (3, 8), (1, 1), (2, 2)])
# XLA's CPU back end adds subnormal numbers as zeros, so that their mean is not numpy's.
SIZES = st.floats(0, 2**100, width=32, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 2.0])


@settings(max_examples=200)
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


def test_massive_activations_by_hand() -> None:
    # |h| is 10, 4, 1, 1, 1 (median 1) and 9, 8, 7, 2, 1 (median 7).
    residual = jnp.array([[[1, -10, 4, 1, -1]], [[9, -8, 7, 2, 1]]], jnp.float32)
    expected = [(10 + 9 / 7) / 2, (4 + 8 / 7) / 2, (1 + 7 / 7) / 2]
    np.testing.assert_allclose(massive_activations(residual), expected, rtol=1e-6)
    np.testing.assert_allclose(massive_activations(residual, 5)[3:], [(1 + 2 / 7) / 2, (1 + 1 / 7) / 2], rtol=1e-6)
    for largest in (0, 6):
        with pytest.raises(ValueError, match=f"the {largest} largest activations of a sequence that has 5"):
            massive_activations(residual, largest)


def test_massive_activations_are_those_of_a_sort_and_the_first_is_the_activation_ratio() -> None:
    residual = np.random.default_rng(2).standard_t(2, size=(3, 7, 6)).astype(np.float32)
    sizes = np.sort(np.abs(residual).reshape(3, -1), axis=1)
    expected = np.mean(sizes[:, ::-1][:, :4] / np.median(sizes, axis=1, keepdims=True), axis=0)
    found = jax.jit(massive_activations, static_argnums=1)(jnp.asarray(residual), 4)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[0] == pytest.approx(activation_ratio(jnp.asarray(residual)).item(), rel=1e-6)


def test_kurtosis_is_that_of_scipy() -> None:
    x = np.random.default_rng(3).standard_t(5, size=(4, 50, 40)).astype(np.float32) * 7 + 3
    expected = np.mean(stats.kurtosis(x.reshape(4, -1).astype(np.float64), axis=1, fisher=False))
    assert tails(jnp.asarray(x)) == pytest.approx(expected, rel=1e-5)
    assert tails(jnp.asarray(x, jnp.bfloat16)) == pytest.approx(expected, rel=2e-2)


def test_kurtosis_by_hand() -> None:
    coin = np.array([[[-1, 1], [1, -1]]], np.float32)
    assert tails(jnp.asarray(coin)) == 1
    alone = np.zeros((1, 4, 5), np.float32)
    alone[0, 2, 1] = 1e4
    assert tails(jnp.asarray(alone)) == pytest.approx(20 - 2 + 1 / 19, rel=1e-5)
    # Of each sequence, not of all: were they pooled, the two scales would add to it.
    scales = np.concatenate([coin, 1000 * coin])
    assert tails(jnp.asarray(scales)) == pytest.approx(1, rel=1e-6)
    normal = np.random.default_rng(4).standard_normal((1, 1000, 1000)).astype(np.float32)
    assert tails(jnp.asarray(normal)) == pytest.approx(3, abs=0.02)


def test_gates_of_heads_and_of_channels() -> None:
    gate = np.random.default_rng(1).random((2, 5, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(gate_mean(jnp.asarray(gate)), gate.mean(axis=(0, 1, 3)), rtol=1e-6)
    np.testing.assert_allclose(gate_mean(jnp.asarray(gate[..., 0])), gate[..., 0].mean(axis=(0, 1)), rtol=1e-6)
    share = (gate < 0.1).mean(axis=(0, 1, 3))
    np.testing.assert_allclose(gate_share_under(jnp.asarray(gate), 0.1), share, rtol=1e-6)
    edge = jnp.full((1, 1, 1), 0.1, jnp.float32)
    assert gate_share_under(edge, 0.1).tolist() == [0]
    assert gate_share_under(edge, 0.11).tolist() == [1]
