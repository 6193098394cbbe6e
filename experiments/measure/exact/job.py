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
    """The numbers of a job.

    Attributes:
        point: arrays by reading.
        data: what the record says of the data: name, digest and what else is known.
    """

    point: Point
    data: Mapping[str, object] = field(default_factory=lambda: {"name": "none"})


@dataclass(frozen=True)
class Job:
    """One arm: it is computed once and recorded without a seed.

    Attributes:
        name: of the arm, which is the name of its folder.
        label: what tables call it.
        settings: everything that decides its numbers, besides the data. It becomes the `config` of the record.
        compute: gets the recorded points of the jobs in `needs`, by name, and a `Tell`.
        data_digest: of the data, or None where there are none.
        needs: earlier jobs of the same study that this one reads the results of.
    """

    name: str
    label: str
    settings: Frozen
    compute: Callable[[Mapping[str, Point], Tell], Computed]
    data_digest: str | None = None
    needs: tuple[str, ...] = ()


def independent(compute: Callable[..., Computed], *arguments: Any) -> Callable[[Mapping[str, Point], Tell], Computed]:
    """`compute(*arguments)` as the `compute` of a job that needs no other job and is short."""
    return lambda points, tell: compute(*arguments)  # noqa: ARG005
