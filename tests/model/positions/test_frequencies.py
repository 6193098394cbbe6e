"""Inverse frequencies and their extensions: equations, the ramps of published models, and arguments out of range."""

import math
from collections.abc import Callable
from typing import Any

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
    p_rope,
    partial,
    position_interpolation,
)
from leadline.model.positions.yarn import dynamic_yarn, ntk_by_parts, yarn, yarn_attention_factor
from tests.refused import refused

GROWN = 1000  # tokens of a training length
Equation = Callable[[int, float, float, int], Any]


def plain(d: int, b: float) -> np.ndarray:
    return b ** (-2 * np.arange(d // 2) / d)


def of_base(d: int, b: float, s: float) -> np.ndarray:
    """b' = b · s^(d/(d-2))."""
    return plain(d, b) * s ** (-2 * np.arange(d // 2) / (d - 2))


def by_turns(d: int, b: float, s: float, length: int, low: float, high: float) -> np.ndarray:
    """Pairs of at least `high` turns within the length stay, those of at most `low` are divided, and between it is linear."""
    w = plain(d, b)
    kept = np.clip((length * w / (2 * math.pi) - low) / (high - low), 0, 1)
    return w * kept + w / s * (1 - kept)


def some(d: int) -> int:
    """More than half of the pairs."""
    return d // 4 + 1


# Of head dimension, base, factor and length: ours, and the equation.
EQUATIONS: dict[str, tuple[Equation, Equation]] = {
    "plain": (lambda d, b, _s, _n: inverse_frequencies(d, b), lambda d, b, _s, _n: plain(d, b)),
    "interpolation": (lambda d, b, s, _n: position_interpolation(d, b, s), lambda d, b, s, _n: plain(d, b) / s),
    "NTK-aware": (lambda d, b, s, _n: ntk_aware(d, b, s), lambda d, b, s, _n: of_base(d, b, s)),
    "dynamic NTK": (
        lambda d, b, s, n: dynamic_ntk(d, b, s, GROWN, n),
        lambda d, b, s, n: of_base(d, b, s * max(n / GROWN, 1) - (s - 1)),
    ),
    "Llama 3": (lambda d, b, s, n: llama3(d, b, s, n), lambda d, b, s, n: by_turns(d, b, s, n, 1, 4)),
    "YaRN": (
        lambda d, b, s, n: yarn(d, b, s, n, ramp="rotations"),
        lambda d, b, s, n: by_turns(d, b, s, n, 1, 32),
    ),
    "dynamic YaRN": (
        lambda d, b, _s, n: dynamic_yarn(d, b, GROWN, n, ramp="rotations", beta_fast=20.0, beta_slow=2.0),
        lambda d, b, _s, n: by_turns(d, b, max(n / GROWN, 1), GROWN, 2, 20),
    ),
    "LongRoPE": (
        lambda d, b, s, _n: longrope(d, b, list(np.linspace(0.5, s, d // 2))),
        lambda d, b, s, _n: plain(d, b) / np.linspace(0.5, s, d // 2),
    ),
    "p-RoPE": (
        lambda d, b, _s, _n: p_rope(inverse_frequencies(d, b), some(d) / (d // 2)),
        lambda d, b, _s, _n: np.where(np.arange(d // 2) < some(d), plain(d, b), 0),
    ),
    "partial rotary": (
        lambda d, b, s, _n: partial(d, some(d) / (d // 2), lambda size: ntk_aware(size, b, s)).table,
        lambda d, b, s, _n: np.pad(of_base(2 * some(d), b, s), (0, d // 2 - some(d))),
    ),
}


@pytest.mark.parametrize("name", EQUATIONS)
@settings(max_examples=30)
@given(st.integers(2, 64).map(lambda half: 2 * half), st.floats(10, 1e7), st.floats(1, 64), st.integers(64, 2**17))
def test_tables_are_those_of_their_equations(name: str, size: int, base: float, factor: float, length: int) -> None:
    ours, equation = EQUATIONS[name]
    np.testing.assert_allclose(ours(size, base, factor, length), equation(size, base, factor, length), rtol=1e-9)


def ramp_of(size: int, base: float, factor: float, length: int, **options: Any) -> np.ndarray:
    """0 where a pair stays, 1 where it is interpolated."""
    return (1 - yarn(size, base, factor, length, **options) / plain(size, base)) / (1 - 1 / factor)


# Pairs where the ramp begins and ends, computed from the published formula for the shapes of known models. That of 65536 tokens
# ends at pair 33 of 32, so that even the last is interpolated in part. That of gpt-oss is not truncated to whole pairs.
@pytest.mark.parametrize(
    ("size", "base", "length", "low", "high"),
    [
        (128, 1e4, 4096, 20, 46),
        (128, 5e5, 8192, 18, 35),
        (64, 1e4, 65536, 20, 33),
        (32, 1e4, 128, 0, 6),
        (64, 150_000.0, 4096, 8.0929, 17.3985),
    ],
)
def test_yarn_is_linear_in_the_pairs(size: int, base: float, length: int, low: float, high: float) -> None:
    expected = np.clip((np.arange(size // 2) - low) / (high - low), 0, 1)
    np.testing.assert_allclose(ramp_of(size, base, 16.0, length, truncate=isinstance(low, int)), expected, atol=1e-4)


def test_an_empty_ramp_is_a_step() -> None:
    """A text so short that both ends of the ramp fall below pair 0."""
    np.testing.assert_allclose(ramp_of(8, 1e4, 4.0, 2, truncate=False), [0, 1, 1, 1])


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (yarn_attention_factor(1.0), 1),
        (yarn_attention_factor(16.0), 1.27726),
        (yarn_attention_factor(math.e, multiplier=0.5), 0.55),
        (yarn_attention_factor(1.0, multiplier=0.7), 0.7),
        (longrope_attention_factor(32.0, 4096), math.sqrt(1 + 5 / 12)),  # Phi-3: 32 = 2^5 and 4096 = 2^12
        (longrope_attention_factor(1.0, 4096), 1),
    ],
)
def test_attention_factors(factor: float, expected: float) -> None:
    assert factor == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("share", [1 / 3, 2 / 3, 1.0])
def test_a_share_that_a_float_cannot_hold(share: float) -> None:
    table, rotated = partial(96, share, lambda size: inverse_frequencies(size, 1e4))
    np.testing.assert_array_equal(rotated, table > 0)
    assert (p_rope(inverse_frequencies(96, 1e4), share) > 0).sum() == rotated.sum() == round(48 * share)


test_wrong_arguments_are_named = refused(
    (lambda: inverse_frequencies(7, 1e4), "7 must be even"),
    (lambda: inverse_frequencies(0, 1e4), "0 must be even and at least 2"),
    (lambda: inverse_frequencies(8, math.inf), "base inf must be positive and finite"),
    (lambda: position_interpolation(8, 1e4, math.inf), "at least 1, and finite"),
    (lambda: ntk_aware(2, 1e4, 2.0), "2 must be at least 4"),
    (lambda: dynamic_ntk(8, 1e4, 0.5, 64, 128), "factor must be at least 1"),
    (lambda: dynamic_ntk(8, 1e4, 2.0, 0, 128), "0 tokens has no positions"),
    (lambda: llama3(8, 1e4, 0.5, 128), "factor must be at least 1"),
    (lambda: llama3(8, 1e4, 2.0, 0), "length must be at least 1"),
    (lambda: llama3(8, 1e4, 2.0, 128, low_frequency_factor=4.0), "below the high one, got 4.0 and 4.0"),
    (lambda: llama3(8, 1e4, 2.0, 128, low_frequency_factor=0.0), "must be positive"),
    (lambda: longrope(8, 1e4, [1.0] * 3), "3 factors for 4 pairs of 8 channels"),
    (lambda: longrope(8, 1e4, [1.0, 1.0, 0.0, 1.0]), "factor 2 must be positive and finite, not 0.0"),
    (lambda: longrope_attention_factor(-2.0, 4096), "factor -2.0"),
    (lambda: longrope_attention_factor(2.0, 1), "training length of 1 must be at least 2"),
    (lambda: yarn(8, 1e4, 0.5, 128), "factor must be at least 1"),
    (lambda: yarn(8, 1e4, 2.0, 128, beta_fast=1.0, beta_slow=32.0), "beta_fast > beta_slow > 0"),
    (lambda: yarn(8, 1e4, 2.0, 128, beta_fast=math.inf), "beta_fast > beta_slow > 0"),
    (lambda: yarn(8, 1e4, 2.0, 0), "length must be at least 1"),
    (lambda: yarn(8, 1.0, 2.0, 128), "base > 1"),
    (lambda: ntk_by_parts(8, 1e4, math.nan, 128, ramp="rotations"), "factor must be at least 1"),
    (lambda: dynamic_yarn(8, 1e4, 128, 0), "length must be at least 1"),
    (lambda: yarn_attention_factor(math.nan), "factor nan"),
    (lambda: p_rope(plain(32, 1e4), 0.0), "above 0 and at most 1, not 0.0"),
    (lambda: p_rope(plain(32, 1e4), 0.3), "share 0.3 of 16 pairs is no whole number .*: the nearest is 0.25 or 0.3125"),
    (lambda: p_rope(plain(32, 1e4), 0.01), "the nearest is 0.0625$"),
    (lambda: partial(7, 0.5, lambda size: plain(size, 1e4)), "7 must be even"),
    (lambda: partial(32, 0.5, lambda _: plain(32, 1e4)), "16 has 8 pairs: its table has 16"),
)
