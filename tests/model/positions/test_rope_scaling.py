"""Tables of inverse frequencies: closed forms, limits, and the ramps of published models."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.positions.rope_scaling import (
    inverse_frequencies,
    ntk_aware,
    position_interpolation,
    yarn,
    yarn_attention_factor,
)

SIZES = st.integers(2, 128).map(lambda half: 2 * half)
BASES = st.floats(10, 1e7)
FACTORS = st.floats(1, 64)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SIZES, BASES, FACTORS)
def test_interpolation_divides_every_frequency(size, base, factor):
    expected = [base ** (-2 * i / size) / factor for i in range(size // 2)]
    np.testing.assert_allclose(position_interpolation(size, base, factor), expected, rtol=1e-12)
    assert inverse_frequencies(size, base)[0] == 1


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SIZES, BASES, FACTORS)
def test_ntk_aware_keeps_the_fastest_pair_and_interpolates_the_slowest(size, base, factor):
    table, plain = ntk_aware(size, base, factor), inverse_frequencies(size, base)
    assert table[0] == 1
    assert table[-1] == pytest.approx(plain[-1] / factor, rel=1e-10)
    ratio = [factor ** (-2 * i / (size - 2)) for i in range(size // 2)]  # of b' = b · s^(d/(d-2)) to b
    np.testing.assert_allclose(table / plain, ratio, rtol=1e-10)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SIZES, BASES, FACTORS, st.integers(64, 2**17), st.booleans())
def test_yarn_lies_between_the_table_and_its_interpolation(size, base, factor, length, truncate):
    plain = inverse_frequencies(size, base)
    table = yarn(size, base, factor, length, truncate=truncate)
    assert (table <= plain * (1 + 1e-12)).all()
    assert (table >= plain / factor * (1 - 1e-12)).all()
    assert (np.diff(plain / table) >= -1e-9).all(), "slower pairs are interpolated more"


# Pairs where the ramp begins and ends, computed from the published formula for the shapes of known models.
@pytest.mark.parametrize(
    ("size", "base", "length", "low", "high"),
    [
        (128, 1e4, 2048, 16, 41),
        (128, 1e4, 4096, 20, 46),
        (128, 5e5, 8192, 18, 35),
        (64, 1e4, 256, 0, 13),
        (64, 1e4, 512, 3, 16),
        (64, 1e4, 1024, 5, 18),
        (32, 1e4, 128, 0, 6),
        (32, 1e4, 256, 0, 7),
    ],
)
def test_yarn_ramp_of_known_shapes(size, base, length, low, high):
    ratio = inverse_frequencies(size, base) / yarn(size, base, 16.0, length)
    assert np.isclose(ratio[: low + 1], 1).all()
    assert np.isclose(ratio[high:], 16).all()
    assert not np.isclose(ratio[low + 1 : high], 1).any()
    assert not np.isclose(ratio[low + 1 : high], 16).any()


def test_yarn_without_truncation_has_the_ramp_of_gpt_oss():
    """d = 64, b = 150000, L0 = 4096, s = 32: the ramp runs from pair 8.09 to pair 17.40."""
    plain, table = inverse_frequencies(64, 150_000.0), yarn(64, 150_000.0, 32.0, 4096, truncate=False)
    ramp = (1 - table / plain) / (1 - 1 / 32)
    np.testing.assert_allclose(ramp, np.clip((np.arange(32) - 8.0929) / (17.3985 - 8.0929), 0, 1), atol=1e-4)
    assert np.abs(table - yarn(64, 150_000.0, 32.0, 4096)).max() > 0


def test_an_empty_ramp_is_a_step():
    """A text so short that both ends of the ramp fall below pair 0."""
    table = yarn(8, 1e4, 4.0, 2, truncate=False)
    np.testing.assert_allclose(inverse_frequencies(8, 1e4) / table, [1, 4, 4, 4])


@pytest.mark.parametrize("extend", [position_interpolation, ntk_aware, lambda d, b, s: yarn(d, b, s, 128)])
def test_the_factor_one_extends_nothing(extend):
    np.testing.assert_allclose(extend(32, 1e4, 1.0), inverse_frequencies(32, 1e4), rtol=1e-12)
    assert yarn_attention_factor(1.0) == 1


def test_attention_factor_of_sixteen():
    assert yarn_attention_factor(16.0) == pytest.approx(1.2773, abs=1e-4)
    assert yarn_attention_factor(16.0) ** 2 == pytest.approx(1.631, abs=1e-3)
    assert yarn_attention_factor(math.e) == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inverse_frequencies(7, 1e4), "7 must be even"),
        (lambda: inverse_frequencies(0, 1e4), "0 must be even and at least 2"),
        (lambda: inverse_frequencies(8, 0.0), "base 0.0 must be positive"),
        (lambda: inverse_frequencies(8, math.nan), "base nan must be positive"),
        (lambda: position_interpolation(8, 1e4, 0.5), "factor must be at least 1"),
        (lambda: ntk_aware(2, 1e4, 2.0), "2 must be at least 4"),
        (lambda: ntk_aware(8, 1e4, math.nan), "factor must be at least 1"),
        (lambda: yarn(8, 1e4, 0.5, 128), "factor must be at least 1"),
        (lambda: yarn(8, 1e4, 2.0, 128, beta_fast=1.0, beta_slow=32.0), "beta_fast > beta_slow > 0"),
        (lambda: yarn(8, 1e4, 2.0, 0), "training length >= 1"),
        (lambda: yarn(8, 1.0, 2.0, 128), "base > 1"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
