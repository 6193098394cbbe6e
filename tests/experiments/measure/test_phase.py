"""Phase errors: a hand-made case, published figures, and what the default keeps."""

import numpy as np
import pytest

from experiments.measure.phase import phase_errors
from model.positions.rope_scaling import inverse_frequencies

TABLE = inverse_frequencies(128, 1e4)


def test_the_error_of_a_rounded_frequency_grows_with_the_position() -> None:
    """1/3 is off by 1/3 · 2^-9 or less in bfloat16, whose eight bits make it 0.333984375."""
    (found,) = phase_errors("bfloat16_frequencies", np.array([1 / 3]), [101])
    assert found == pytest.approx(100 * (0.333984375 - 1 / 3), rel=1e-4)


@pytest.mark.parametrize(("length", "expected"), [(4096, 2.4e-4), (32768, 1.9e-3)])
def test_float32_is_off_by_what_was_found_of_it_before(length: int, expected: float) -> None:
    """float32 products of the table of head dim 128 and base 10000, to the two digits known."""
    assert phase_errors("float32", TABLE, [length]) == [pytest.approx(expected, rel=0.05)]


def test_bfloat16_loses_the_phase_within_4096_tokens() -> None:
    for arithmetic in ("bfloat16_frequencies", "bfloat16"):
        assert phase_errors(arithmetic, TABLE, [4096])[0] > 3


def test_fixed_point_keeps_a_microradian_and_lengths_share_their_work() -> None:
    errors = phase_errors("fixed_point", TABLE, [1000, 40_000])
    assert errors == phase_errors("fixed_point", TABLE, [1000]) + phase_errors("fixed_point", TABLE, [40_000])
    assert 0 < errors[0] <= errors[1] < 1e-6
