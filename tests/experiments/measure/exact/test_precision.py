"""Jobs of phase errors."""

from leadline.experiments.config.exact import Precision
from leadline.experiments.measure.exact.precision import LABELS, jobs
from leadline.experiments.records.measurement import reading


def test_errors_grow_with_the_length_and_the_rounding() -> None:
    points = {job.name: job.compute({}, lambda done, steps: None).point for job in jobs(Precision(lengths=(256, 64)))}  # noqa: ARG005
    assert list(points) == list(LABELS)
    near, far = ([float(point[reading("phase_error", length=length)]) for point in points.values()] for length in (64, 256))
    assert all(before <= after for before, after in zip(near, far, strict=True))
    assert far[0] < far[1] < far[2]
