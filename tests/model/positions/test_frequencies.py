"""Inverse frequencies: their equations, their limits, and arguments out of range."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.positions.frequencies import (
    dynamic_ntk,
    inverse_frequencies,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk_aware,
    position_interpolation,
)
from leadline.model.positions.yarn import ntk_by_parts

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


SIZES = st.integers(2, 128).map(lambda half: 2 * half)


@settings(max_examples=30)
@given(SIZES, st.floats(10, 1e7), st.floats(1, 64), st.integers(64, 2**17), st.floats(0.1, 2), st.floats(3, 40))
def test_it_is_ntk_by_parts_with_the_ramp_in_rotations(size, base, factor, length, low, high):
    table = llama3(size, base, factor, length, low_frequency_factor=low, high_frequency_factor=high)
    parts = ntk_by_parts(size, base, factor, length, beta_fast=high, beta_slow=low, ramp="rotations")
    np.testing.assert_allclose(table, parts, rtol=1e-12)


def test_table_of_llama_3_1():
    """d = 128, b = 5e5, s = 8, L0 = 8192: wavelengths below 2048 stay, those above 8192 grow eightfold."""
    plain = inverse_frequencies(128, 5e5)
    ratio, wavelengths = plain / llama3(128, 5e5, 8.0, 8192), 2 * math.pi / plain
    np.testing.assert_allclose(ratio[wavelengths < 2048], 1)
    np.testing.assert_allclose(ratio[wavelengths > 8192], 8)
    between = (wavelengths > 2048) & (wavelengths < 8192)
    # ln(2048 / 2π) and ln(8192 / 2π) in steps of ln(5e5) / 64: after 28.2 and 34.98
    np.testing.assert_array_equal(np.flatnonzero(between), np.arange(29, 35))
    kept = (1 / ratio - 1 / 8) / (1 - 1 / 8)
    np.testing.assert_allclose(kept[between], (8192 / wavelengths[between] - 1) / 3, atol=1e-12)


def test_llama3_by_the_factor_one_extends_nothing():
    np.testing.assert_allclose(llama3(64, 5e5, 1.0, 512), inverse_frequencies(64, 5e5), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: llama3(8, 1e4, 0.5, 128), "factor must be at least 1"),
        (lambda: llama3(8, 1e4, 2.0, 0), "length must be at least 1"),
        (lambda: llama3(8, 1e4, 2.0, 128, low_frequency_factor=4.0), "below the high one, got 4.0 and 4.0"),
        (lambda: llama3(8, 1e4, 2.0, 128, low_frequency_factor=0.0), "must be positive"),
        (lambda: llama3(8, -1.0, 2.0, 128), "base -1.0 must be positive"),
    ],
)
def test_wrong_arguments_of_llama3_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@settings(max_examples=30)
@given(st.floats(10, 1e7), st.lists(st.floats(0.5, 64), min_size=1, max_size=64))
def test_every_pair_is_divided_by_its_factor(base, factors):
    size = 2 * len(factors)
    expected = [1 / (factor * base ** (2 * i / size)) for i, factor in enumerate(factors)]
    np.testing.assert_allclose(longrope(size, base, factors), expected, rtol=1e-12)


def test_equal_factors_are_position_interpolation():
    np.testing.assert_allclose(longrope(32, 1e4, [4.0] * 16), position_interpolation(32, 1e4, 4.0), rtol=1e-15)
    np.testing.assert_array_equal(longrope(32, 1e4, [1.0] * 16), inverse_frequencies(32, 1e4))


def test_attention_factor_of_phi_3():
    """From 4096 to 131072 tokens: sqrt(1 + 5/12), as 32 = 2^5 and 4096 = 2^12."""
    assert longrope_attention_factor(32.0, 4096) == pytest.approx(math.sqrt(1 + 5 / 12), rel=1e-12)
    assert longrope_attention_factor(4096.0, 4096) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_longrope_that_is_not_extended_has_no_attention_factor(factor):
    assert longrope_attention_factor(factor, 4096) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: longrope(8, 1e4, [1.0] * 3), "3 factors for 4 pairs of 8 channels"),
        (lambda: longrope(8, 1e4, [1.0] * 8), "8 factors for 4 pairs"),
        (lambda: longrope(8, 1e4, [1.0, 1.0, 0.0, 1.0]), "factor 2 must be positive and finite, not 0.0"),
        (lambda: longrope(4, 1e4, [1.0, math.nan]), "factor 1 must be positive and finite, not nan"),
        (lambda: longrope(7, 1e4, [1.0] * 3), "7 must be even"),
        (lambda: longrope_attention_factor(-2.0, 4096), "factor -2.0"),
        (lambda: longrope_attention_factor(2.0, 1), "training length of 1 must be at least 2"),
        (lambda: longrope_attention_factor(2.0, 0), "length must be at least 1"),
    ],
)
def test_wrong_arguments_of_longrope_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
