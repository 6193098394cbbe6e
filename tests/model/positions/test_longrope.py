"""LongRoPE: its table pair by pair, and its attention factor."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.positions.longrope import longrope, longrope_attention_factor
from model.positions.rope_scaling import inverse_frequencies, position_interpolation


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
def test_what_is_not_extended_has_no_attention_factor(factor):
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
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
