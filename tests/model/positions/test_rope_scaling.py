"""Tables of inverse frequencies: closed forms and limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.positions.rope_scaling import dynamic_ntk, inverse_frequencies, ntk_aware, position_interpolation

SIZES = st.integers(2, 128).map(lambda half: 2 * half)
BASES = st.floats(10, 1e7)
FACTORS = st.floats(1, 64)


@settings(max_examples=30)
@given(SIZES, BASES, FACTORS)
def test_interpolation_divides_every_frequency(size, base, factor):
    expected = [base ** (-2 * i / size) / factor for i in range(size // 2)]
    np.testing.assert_allclose(position_interpolation(size, base, factor), expected, rtol=1e-12)
    assert inverse_frequencies(size, base)[0] == 1


@settings(max_examples=30)
@given(SIZES, BASES, FACTORS)
def test_ntk_aware_keeps_the_fastest_pair_and_interpolates_the_slowest(size, base, factor):
    table, plain = ntk_aware(size, base, factor), inverse_frequencies(size, base)
    assert table[0] == 1
    assert table[-1] == pytest.approx(plain[-1] / factor, rel=1e-10)
    ratio = [factor ** (-2 * i / (size - 2)) for i in range(size // 2)]  # of b' = b · s^(d/(d-2)) to b
    np.testing.assert_allclose(table / plain, ratio, rtol=1e-10)


@settings(max_examples=30)
@given(SIZES, BASES, FACTORS, st.integers(1, 4096), st.integers(1, 2**17))
def test_dynamic_ntk_is_ntk_aware_by_the_length_of_the_text(size, base, factor, original, length):
    table, plain = dynamic_ntk(size, base, factor, original, length), inverse_frequencies(size, base)
    grown = max(length / original, 1.0)
    assert plain[-1] / table[-1] == pytest.approx(1 + factor * (grown - 1), rel=1e-9)
    np.testing.assert_allclose(dynamic_ntk(size, base, 1.0, original, length), ntk_aware(size, base, grown), rtol=1e-12)


@pytest.mark.parametrize(("length", "factor"), [(64, 1.0), (65, 1.03125), (128, 3.0), (256, 7.0)])
def test_dynamic_ntk_by_two_overshoots(length, factor):
    """Asked for the double, it extends threefold at twice and sevenfold at four times the training length."""
    np.testing.assert_allclose(dynamic_ntk(32, 1e4, 2.0, 64, length), ntk_aware(32, 1e4, factor), rtol=1e-12)


@pytest.mark.parametrize("length", [1, 63, 64])
def test_dynamic_ntk_leaves_short_texts_alone(length):
    np.testing.assert_array_equal(dynamic_ntk(32, 1e4, 8.0, 64, length), inverse_frequencies(32, 1e4))


@pytest.mark.parametrize("extend", [position_interpolation, ntk_aware])
def test_the_factor_one_extends_nothing(extend):
    np.testing.assert_allclose(extend(32, 1e4, 1.0), inverse_frequencies(32, 1e4), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inverse_frequencies(7, 1e4), "7 must be even"),
        (lambda: inverse_frequencies(0, 1e4), "0 must be even and at least 2"),
        (lambda: inverse_frequencies(8, 0.0), "base 0.0 must be positive"),
        (lambda: inverse_frequencies(8, math.nan), "base nan must be positive"),
        (lambda: inverse_frequencies(8, math.inf), "base inf must be positive and finite"),
        (lambda: position_interpolation(8, 1e4, 0.5), "factor must be at least 1"),
        (lambda: position_interpolation(8, 1e4, math.inf), "at least 1, and finite"),
        (lambda: ntk_aware(2, 1e4, 2.0), "2 must be at least 4"),
        (lambda: ntk_aware(8, 1e4, math.nan), "factor must be at least 1"),
        (lambda: dynamic_ntk(8, 1e4, 0.5, 64, 128), "factor must be at least 1"),
        (lambda: dynamic_ntk(2, 1e4, 2.0, 64, 128), "2 must be at least 4"),
        (lambda: dynamic_ntk(8, 1e4, 2.0, 0, 128), "0 tokens has no positions"),
        (lambda: dynamic_ntk(8, 1e4, 2.0, 64, 0), "0 tokens has no positions"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
