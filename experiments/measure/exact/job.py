"""One arm of a study that trains nothing: what decides its numbers, and how they are computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leadline.experiments.config.base import Frozen
from leadline.experiments.records.measurement import Point

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
