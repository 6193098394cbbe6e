"""Jobs, computed as a study does."""

from leadline.experiments.measure.exact.job import Computed, Job
from leadline.experiments.records.measurement import Point


def computed(jobs: list[Job]) -> dict[str, Computed]:
    """The results of jobs in their order, each with the points that it needs and no others."""
    results: dict[str, Computed] = {}
    for job in jobs:
        results[job.name] = job.compute({name: results[name].point for name in job.needs}, lambda done, steps: None)  # noqa: ARG005
    return results


def points_of(jobs: list[Job]) -> dict[str, Point]:
    return {name: result.point for name, result in computed(jobs).items()}
