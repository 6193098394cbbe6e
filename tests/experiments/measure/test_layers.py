"""What becomes of the statistics of layers and heads."""

import numpy as np
import pytest

from experiments.arms import unit
from experiments.measure.layers import as_number


def test_one_number_of_all_heads() -> None:
    values = np.array([[0.1, 0.3], [0.5, 0.7]], np.float32)
    assert as_number("sink_rate", values) == pytest.approx(0.4)
    assert as_number("activation_ratio", np.array([3, 90, 4], np.float32)) == 90
    assert as_number("loss", np.array(2.5, np.float32)) == 2.5


def test_the_mean_is_taken_in_float64() -> None:
    # Sums of float32 stop growing at 2^24.
    values = np.ones(2**24 + 8, np.float32)
    values[0] = 2**24
    assert as_number("first_token_mass", values) == pytest.approx((2**25 + 7) / (2**24 + 8), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loss", "nats"),
        ("perplexity.none.1024", "per token"),
        ("perplexity_last64.yarn.256", "per token"),
        ("sink_rate.128", "share"),
        ("gate_under_0.1", "share"),
        ("activation_ratio", "ratio"),
    ],
)
def test_units_with_and_without_a_length(name: str, expected: str) -> None:
    assert unit(name) == expected
