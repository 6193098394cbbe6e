"""p-RoPE and partial rotary: what is left of the spectrum, and that they are two things."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.positions.frequencies import inverse_frequencies, ntk_aware, p_rope, partial
from leadline.model.positions.yarn import yarn

ROTATED = st.integers(1, 64).flatmap(lambda pairs: st.tuples(st.just(pairs), st.integers(1, pairs)))


def plain(size):
    return inverse_frequencies(size, 1e4)


@settings(max_examples=30)
@given(ROTATED)
def test_p_rope_keeps_the_fast_pairs_as_they_are(numbers):
    pairs, rotated = numbers
    table, cut = plain(2 * pairs), p_rope(plain(2 * pairs), rotated / pairs)
    np.testing.assert_array_equal(cut[:rotated], table[:rotated])
    np.testing.assert_array_equal(cut[rotated:], np.zeros(pairs - rotated))


@settings(max_examples=30)
@given(ROTATED)
def test_partial_rotary_has_the_table_of_a_smaller_head(numbers):
    pairs, rotated = numbers
    table, mask = partial(2 * pairs, rotated / pairs, plain)
    np.testing.assert_array_equal(table[:rotated], plain(2 * rotated))
    np.testing.assert_array_equal(table[rotated:], np.zeros(pairs - rotated))
    np.testing.assert_array_equal(mask, table > 0)


def test_half_of_eight_channels():
    np.testing.assert_allclose(p_rope(plain(8), 0.5), [1, 0.1, 0, 0])
    np.testing.assert_allclose(partial(8, 0.5, plain).table, [1, 0.01, 0, 0])


def test_the_whole_share_changes_nothing():
    np.testing.assert_array_equal(p_rope(plain(32), 1.0), plain(32))
    whole = partial(32, 1.0, plain)
    np.testing.assert_array_equal(whole.table, plain(32))
    assert whole.rotated.all()


@pytest.mark.parametrize("share", [1 / 3, 2 / 3])
def test_a_share_that_a_float_cannot_hold(share):
    assert (p_rope(plain(96), share) > 0).sum() == partial(96, share, plain).rotated.sum() == round(48 * share)


def test_extensions_see_the_rotary_dimension():
    for extend in (ntk_aware, lambda size, base, factor: yarn(size, base, factor, 256)):
        table, _ = partial(64, 0.25, lambda size, extend=extend: extend(size, 1e4, 4.0))
        np.testing.assert_array_equal(table[:8], extend(16, 1e4, 4.0))
        assert np.abs(table[:8] - extend(64, 1e4, 4.0)[:8]).max() > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: p_rope(plain(32), 0.0), "above 0 and at most 1, not 0.0"),
        (lambda: p_rope(plain(32), 1.5), "above 0 and at most 1, not 1.5"),
        (lambda: p_rope(plain(32), 0.3), "share 0.3 of 16 pairs is no whole number of them: the nearest is 0.25 or 0.3125"),
        (lambda: p_rope(plain(32), 0.01), "the nearest is 0.0625$"),
        (lambda: partial(32, 0.3, plain), "the nearest is 0.25 or 0.3125"),
        (lambda: partial(32, -1.0, plain), "above 0 and at most 1, not -1.0"),
        (lambda: partial(7, 0.5, plain), "7 must be even"),
        (lambda: partial(32, 0.5, lambda _: plain(32)), "16 has 8 pairs: its table has 16"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
