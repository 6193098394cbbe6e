"""One arm of a study that trains nothing: what decides its numbers, and how they are computed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.records.measurement import Point, Reading

# Reports (steps done, steps in all). It raises `Interrupted` when the run is asked to stop.
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Computed:
    """The numbers of a job."""

    point: Point
    # What the record says of the data: name, digest and what else is known.
    data: Mapping[str, object] = field(default_factory=lambda: {"name": "none"})
    parameters: int = 0  # weights of the model that was measured, if there was one


@dataclass(frozen=True)
class Job:
    """One arm: it is computed once and recorded without a seed."""

    name: str  # of the arm, which is the name of its folder
    label: str  # what tables call it
    settings: Frozen  # everything that decides its numbers, besides the data; it becomes the `config` of the record
    # Gets the recorded points of the jobs in `needs`, by name, and a `Tell`.
    compute: Callable[[Mapping[str, Point], Tell], Computed]
    data_digest: str | None = None  # of the data; None where there are none
    needs: tuple[str, ...] = ()  # earlier jobs of the same study that this one reads the results of


def independent(compute: Callable[..., Computed], *arguments: Any) -> Callable[[Mapping[str, Point], Tell], Computed]:
    """`compute(*arguments)` as the `compute` of a job that needs no other job and is short."""
    return lambda points, tell: compute(*arguments)  # noqa: ARG005


# What tables call a job, its settings, and the function of these that gives its numbers by reading.
Subject = tuple[str, Any, Callable[[Any], Mapping[Reading, Any]]]


def jobs_of_subjects(subjects: Iterable[Subject]) -> list[Job]:
    """A job for each subject, named by the kind of its settings."""
    return [
        Job(settings.kind, label, settings, independent(_of_subject, compute, settings))
        for label, settings, compute in subjects
    ]


def _of_subject(compute: Callable[[Any], Mapping[Reading, Any]], settings: Frozen) -> Computed:
    return Computed({key: np.asarray(number) for key, number in compute(settings).items()})
