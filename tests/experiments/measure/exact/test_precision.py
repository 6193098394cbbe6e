"""Phase errors: a hand-made case, published figures, and what the default keeps."""

import numpy as np
import pytest

from leadline.experiments.config.exact import Precision
from leadline.experiments.measure.exact.precision import LABELS, jobs, phase_errors
from leadline.experiments.records.measurement import reading
from leadline.model.positions.frequencies import inverse_frequencies

TABLE = inverse_frequencies(128, 1e4)


def test_errors_grow_with_the_length_and_the_rounding() -> None:
    points = {job.name: job.compute({}, lambda done, steps: None).point for job in jobs(Precision(lengths=(256, 64)))}  # noqa: ARG005
    assert list(points) == list(LABELS)
    near, far = ([float(point[reading("phase_error", length=length)]) for point in points.values()] for length in (64, 256))
    assert all(before <= after for before, after in zip(near, far, strict=True))
    assert far[0] < far[1] < far[2]


def test_the_error_of_a_rounded_frequency_grows_with_the_position() -> None:
    """bfloat16's eight bits make 1/3 0.333984375."""
    (error,) = phase_errors("bfloat16_frequencies", np.array([1 / 3]), [101])
    assert error == pytest.approx(100 * (0.333984375 - 1 / 3), rel=1e-4)


def test_errors_of_head_dim_128_and_base_10000() -> None:
    """float32 products are off as measured before, to two digits; bfloat16 loses the phase; fixed point keeps a microradian."""
    assert phase_errors("float32", TABLE, [4096, 32768]) == [pytest.approx(2.4e-4, rel=0.05), pytest.approx(1.9e-3, rel=0.05)]
    assert all(phase_errors(arithmetic, TABLE, [4096])[0] > 3 for arithmetic in ("bfloat16_frequencies", "bfloat16"))
    errors = phase_errors("fixed_point", TABLE, [1000, 40_000])
    assert errors == phase_errors("fixed_point", TABLE, [1000]) + phase_errors("fixed_point", TABLE, [40_000])
    assert 0 < errors[0] <= errors[1] < 1e-6
