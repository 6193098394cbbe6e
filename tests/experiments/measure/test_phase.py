"""Phase errors: a hand-made case, published figures, and what the default keeps."""

import numpy as np
import pytest

from leadline.experiments.measure.phase import phase_errors
from leadline.model.positions.frequencies import inverse_frequencies

TABLE = inverse_frequencies(128, 1e4)


def test_the_error_of_a_rounded_frequency_grows_with_the_position() -> None:
    """bfloat16's eight bits make 1/3 0.333984375."""
    (error,) = phase_errors("bfloat16_frequencies", np.array([1 / 3]), [101])
    assert error == pytest.approx(100 * (0.333984375 - 1 / 3), rel=1e-4)


@pytest.mark.parametrize(("length", "expected"), [(4096, 2.4e-4), (32768, 1.9e-3)])
def test_float32_is_off_as_measured_before(length: int, expected: float) -> None:
    """float32 products of the table of head dim 128 and base 10000, to the two digits known."""
    assert phase_errors("float32", TABLE, [length]) == [pytest.approx(expected, rel=0.05)]


def test_bfloat16_loses_the_phase_within_4096_tokens() -> None:
    for arithmetic in ("bfloat16_frequencies", "bfloat16"):
        assert phase_errors(arithmetic, TABLE, [4096])[0] > 3


def test_fixed_point_keeps_a_microradian_and_lengths_share_their_work() -> None:
    errors = phase_errors("fixed_point", TABLE, [1000, 40_000])
    assert errors == phase_errors("fixed_point", TABLE, [1000]) + phase_errors("fixed_point", TABLE, [40_000])
    assert 0 < errors[0] <= errors[1] < 1e-6
