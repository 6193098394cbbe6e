"""YaRN's tables: limits, both ramps, the ramps of published models, and the temperature."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.yarn import deepseek_attention_factor, dynamic_yarn, ntk_by_parts, yarn, yarn_attention_factor

SIZES = st.integers(2, 128).map(lambda half: 2 * half)
BASES = st.floats(10, 1e7)
FACTORS = st.floats(1, 64)
RAMPS = pytest.mark.parametrize("ramp", ["pairs", "rotations"])


@settings(max_examples=30)
@given(SIZES, BASES, FACTORS, st.integers(64, 2**17), st.booleans(), st.sampled_from(["pairs", "rotations"]))
def test_yarn_lies_between_the_table_and_its_interpolation(size, base, factor, length, truncate, ramp):
    plain = inverse_frequencies(size, base)
    table = yarn(size, base, factor, length, truncate=truncate, ramp=ramp)
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


@settings(max_examples=30)
@given(SIZES, BASES, st.floats(1.1, 64), st.integers(64, 2**17))
def test_the_ramp_of_the_paper_is_linear_in_rotations(size, base, factor, length):
    """Pairs of at least 32 turns within the training length stay, those of at most one are interpolated."""
    plain = inverse_frequencies(size, base)
    kept = (yarn(size, base, factor, length, ramp="rotations") / plain - 1 / factor) / (1 - 1 / factor)
    turns = length / (2 * math.pi / plain)
    np.testing.assert_allclose(kept[turns >= 32], 1, atol=1e-9)
    np.testing.assert_allclose(kept[turns <= 1], 0, atol=1e-9)
    between = (turns > 1) & (turns < 32)
    np.testing.assert_allclose(kept[between], (turns[between] - 1) / 31, atol=1e-9)


def test_the_ramps_of_the_paper_and_of_the_code_differ():
    """d = 128, b = 1e4, L0 = 4096, s = 16: most at pair 30, by 0.344 of its frequency."""
    plain = inverse_frequencies(128, 1e4)
    code, paper = (yarn(128, 1e4, 16.0, 4096, ramp=ramp) / plain for ramp in ("pairs", "rotations"))
    assert np.argmax(np.abs(code - paper)) == 30
    assert code[30] == pytest.approx(0.639, abs=5e-4)
    assert paper[30] == pytest.approx(0.295, abs=5e-4)
    assert code[30] - paper[30] == pytest.approx(0.344, abs=5e-4)


def test_both_ramps_have_the_same_ends_but_for_rounding():
    plain = inverse_frequencies(128, 1e4)
    code, paper = (yarn(128, 1e4, 16.0, 4096, truncate=False, ramp=ramp) / plain for ramp in ("pairs", "rotations"))
    for ends in (np.isclose(code, 1), np.isclose(code, 1 / 16)):
        assert ends.any()
        np.testing.assert_allclose(code[ends], paper[ends], rtol=1e-12)
    assert (np.isclose(code, 1) | np.isclose(code, 1 / 16)).sum() == (np.isclose(paper, 1) | np.isclose(paper, 1 / 16)).sum()


def test_a_ramp_beyond_the_last_pair_ends_at_the_head_dimension():
    """d = 64, b = 1e4, L0 = 65536: the ramp ends at pair 33 of 32, so that even the last is interpolated in part."""
    plain, table = inverse_frequencies(64, 1e4), yarn(64, 1e4, 16.0, 65536)
    ramp = (1 - table / plain) / (1 - 1 / 16)
    np.testing.assert_allclose(ramp, np.clip((np.arange(32) - 20) / (33 - 20), 0, 1), atol=1e-12)


def test_by_parts_is_yarn_without_its_temperature():
    arguments = {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}
    for ramp in ("pairs", "rotations"):
        a, b = (f(32, 1e4, 8.0, 512, ramp=ramp, **arguments) for f in (ntk_by_parts, yarn))
        np.testing.assert_array_equal(a, b)


@RAMPS
@pytest.mark.parametrize(("length", "factor"), [(1, 1.0), (512, 1.0), (513, 513 / 512), (4096, 8.0)])
def test_dynamic_yarn_is_yarn_by_the_length_of_the_text(ramp, length, factor):
    np.testing.assert_array_equal(dynamic_yarn(32, 1e4, 512, length, ramp=ramp), yarn(32, 1e4, factor, 512, ramp=ramp))


@RAMPS
def test_the_factor_one_extends_nothing(ramp):
    np.testing.assert_allclose(yarn(32, 1e4, 1.0, 128, ramp=ramp), inverse_frequencies(32, 1e4), rtol=1e-12)
    assert yarn_attention_factor(1.0) == 1


def test_attention_factor_of_sixteen():
    assert yarn_attention_factor(16.0) == pytest.approx(1.2773, abs=1e-4)
    assert yarn_attention_factor(16.0) ** 2 == pytest.approx(1.631, abs=1e-3)
    assert yarn_attention_factor(math.e) == pytest.approx(1.1)


def test_the_multiplier_comes_on_top():
    assert yarn_attention_factor(16.0, multiplier=0.5) == pytest.approx(0.5 * yarn_attention_factor(16.0))
    assert yarn_attention_factor(0.5, multiplier=0.7) == 0.7


def test_attention_factor_of_deepseek():
    """DeepSeek-V2: s = 40 with both 0.707, so 1; with 1 and 0 it is that of YaRN."""
    assert deepseek_attention_factor(40.0, 0.707, 0.707) == 1
    assert deepseek_attention_factor(40.0, 1.0, 0.0) == yarn_attention_factor(40.0)
    assert deepseek_attention_factor(math.e, 2.0, 1.0) == pytest.approx(1.2 / 1.1)
    assert deepseek_attention_factor(1.0, 2.0, 1.0) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: yarn(8, 1e4, 0.5, 128), "factor must be at least 1"),
        (lambda: yarn(8, 1e4, 2.0, 128, beta_fast=1.0, beta_slow=32.0), "beta_fast > beta_slow > 0"),
        (lambda: yarn(8, 1e4, 2.0, 128, beta_fast=math.inf), "beta_fast > beta_slow > 0"),
        (lambda: yarn(8, 1e4, 2.0, 0), "length must be at least 1"),
        (lambda: yarn(8, 1.0, 2.0, 128), "base > 1"),
        (lambda: yarn(7, 1e4, 2.0, 128), "7 must be even"),
        (lambda: ntk_by_parts(8, 1e4, math.nan, 128, ramp="rotations"), "factor must be at least 1"),
        (lambda: dynamic_yarn(8, 1e4, 0, 128), "length must be at least 1"),
        (lambda: dynamic_yarn(8, 1e4, 128, 0), "length must be at least 1"),
        (lambda: yarn_attention_factor(math.nan), "factor nan"),
        (lambda: deepseek_attention_factor(-1.0, 1.0, 1.0), "factor -1.0"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
