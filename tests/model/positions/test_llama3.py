"""Llama 3's table: its three ranges of wavelengths, and that it is YaRN's table with the ramp of the paper."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.positions.llama3 import llama3
from model.positions.rope_scaling import inverse_frequencies
from model.positions.yarn import ntk_by_parts

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


def test_the_factor_one_extends_nothing():
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
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
