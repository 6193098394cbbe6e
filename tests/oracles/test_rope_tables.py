"""Every table of inverse frequencies against the function of transformers that makes it, on random configurations.

Not compared are the defects of transformers 5.23.0: it reads YaRN's `truncate` beside the layer types instead of among the
parameters of one; its dynamic table outlives the text that it was made for; an empty ramp of YaRN, whose ends are clipped into
the wrong order, runs backwards; YaRN on part of the channels leaves the others at their temperature; and an interleaved section
that does not fit is cut off, where leadline raises an error.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from leadline.model.positions.frequencies import (
    dynamic_ntk,
    inverse_frequencies,
    llama3,
    longrope,
    longrope_attention_factor,
    p_rope,
    partial,
    position_interpolation,
)
from leadline.model.positions.yarn import yarn, yarn_attention_factor

pytestmark = pytest.mark.oracle

SIZES = st.integers(2, 64).map(lambda half: 2 * half)
BASES = st.floats(50, 1e7)
FACTORS = st.floats(1, 64)
LENGTHS = st.sampled_from([128, 1000, 4096, 2**15])
ROTATED = st.integers(1, 64).flatmap(lambda pairs: st.tuples(st.just(pairs), st.integers(1, pairs)))
# Their tables are float32 powers of a float32 base: about one unit in the last place, magnified by the exponent.
ROUNDING = 5e-6


def config(size: int, base: float, longest: int = 2**20, **parameters: object) -> LlamaConfig:
    rope = {"rope_type": "default", "rope_theta": base, **parameters}
    return LlamaConfig(
        hidden_size=2 * size, num_attention_heads=2, head_dim=size, max_position_embeddings=longest, rope_parameters=rope
    )


def published(kind: str, size: int, base: float, *, length: int | None = None, longest: int = 2**20, **parameters: object):
    """The table, float64 [d/2], and the attention factor."""
    table, factor = ROPE_INIT_FUNCTIONS[kind](config(size, base, longest, rope_type=kind, **parameters), None, length)
    return table.double().numpy(), factor


def test_no_kind_of_theirs_is_left_out():
    """Besides these, transformers has the plain table, and "axial" in the code of vision models."""
    assert set(ROPE_INIT_FUNCTIONS) == {"linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}


@settings(max_examples=25)
@given(SIZES, BASES, FACTORS, LENGTHS, st.integers(1, 2**17))
def test_default_linear_and_dynamic_tables(size, base, factor, original, length):
    plain, _ = LlamaRotaryEmbedding.compute_default_rope_parameters(config(size, base))
    np.testing.assert_allclose(inverse_frequencies(size, base), plain.numpy(), rtol=ROUNDING)
    linear, scaling = published("linear", size, base, factor=factor)
    np.testing.assert_allclose(position_interpolation(size, base, factor), linear, rtol=ROUNDING)
    dynamic, also = published("dynamic", size, base, length=length, longest=original, factor=factor)
    # The base itself grows beyond 1e12 here, and with it the error of its float32 power.
    np.testing.assert_allclose(dynamic_ntk(size, base, factor, original, length), dynamic, rtol=2 * ROUNDING)
    assert scaling == also == 1


def assert_by_turns(
    kind: str, table: np.ndarray, attention_factor: float, size: int, base: float, **parameters: object
) -> None:
    """Where a ramp is nearly 0 or 1, float32 leaves an absolute error of the ramp, hence the share of w_i."""
    expected, scaling = published(kind, size, base, **parameters)
    plain = inverse_frequencies(size, base)
    np.testing.assert_allclose(table / plain, expected / plain, atol=1e-5)
    np.testing.assert_allclose(table, expected, rtol=1e-4)
    assert scaling == pytest.approx(attention_factor)


@settings(max_examples=40)
@given(SIZES, BASES, FACTORS, LENGTHS, st.booleans(), st.sampled_from([(32.0, 1.0), (16.0, 2.0), (8.0, 4.0)]))
def test_yarn_and_llama3_tables_and_attention_factor(size, base, factor, length, truncate, turns):
    given, (high, low) = {"factor": factor, "original_max_position_embeddings": length}, turns
    table = yarn(size, base, factor, length, beta_fast=high, beta_slow=low, truncate=truncate)
    more = {"beta_fast": high, "beta_slow": low, "truncate": truncate}
    assert_by_turns("yarn", table, yarn_attention_factor(factor), size, base, **given, **more)
    table = llama3(size, base, factor, length, low_frequency_factor=low, high_frequency_factor=high)
    assert_by_turns("llama3", table, 1, size, base, **given, low_freq_factor=low, high_freq_factor=high)


@settings(max_examples=25)
@given(BASES, st.lists(st.tuples(st.floats(1, 4), st.floats(1, 64)), min_size=2, max_size=64), FACTORS, LENGTHS)
def test_longrope_tables_and_attention_factor(base, factors, factor, original):
    short, long = (list(column) for column in zip(*factors, strict=True))
    parameters = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": original}
    for length, list_of_length in ((original, short), (original + 1, long)):
        expected, scaling = published("longrope", 2 * len(factors), base, length=length, factor=factor, **parameters)
        np.testing.assert_allclose(longrope(2 * len(factors), base, list_of_length), expected, rtol=ROUNDING)
        assert longrope_attention_factor(factor, original) == pytest.approx(scaling)


@settings(max_examples=25)
@given(ROTATED, BASES, FACTORS)
def test_proportional_tables_are_p_rope_and_partial_ones_those_of_gpt_neox_and_of_any_extension(numbers, base, factor):
    """The same key of the configuration is two things."""
    pairs, rotated = numbers
    share = (rotated + 1e-9) / pairs  # their pairs are rounded down
    expected, scaling = published("proportional", 2 * pairs, base, partial_rotary_factor=share)
    np.testing.assert_allclose(p_rope(inverse_frequencies(2 * pairs, base), rotated / pairs), expected, rtol=ROUNDING)
    assert scaling == 1
    theirs = config(2 * pairs, base, partial_rotary_factor=share)
    plain, _ = GPTNeoXRotaryEmbedding.compute_default_rope_parameters(theirs)
    extension = {"factor": factor, "original_max_position_embeddings": 4096}
    extended, _ = published("yarn", 2 * pairs, base, partial_rotary_factor=share, **extension)
    for table_of, other in ((inverse_frequencies, plain.numpy()), (lambda d, b: yarn(d, b, factor, 4096), extended)):
        table, mask = partial(2 * pairs, rotated / pairs, lambda size, table_of=table_of: table_of(size, base))
        np.testing.assert_allclose(table[mask] / plain.numpy(), other / plain.numpy(), atol=1e-5)
        assert not table[~mask].any()
