"""Lower bounds of the RoPE base: a job for each head dim and length, for their growth, and for Men et al.'s Table 4."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import BaseBound
from leadline.experiments.measure.bound import (
    HEAD_DIM,
    MEN,
    MEN_TABLE_4,
    PUBLISHED,
    SU,
    frequencies,
    negative_distances,
    published_at,
    search,
    start,
)
from leadline.experiments.measure.exact.job import Computed, Job, Tell, independent
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.model.base_bound.bound import FeasibleBases, bound_of
from leadline.model.base_bound.sums import similarity_sums
from leadline.model.positions.frequencies import inverse_frequencies

# B_m is kept by distance for contexts up to this length: 16 kB a curve.
LONGEST_CURVE = 4096
# Lengths from which a power law is fitted.
FEWEST_LENGTHS = 3
# Of the interval of a fitted exponent.
CONFIDENCE = 0.95
EDGES = reading("island_edges")
BOUNDS = ("smallest_base", "largest_infeasible_base")


class BoundSettings(Frozen):
    """What decides the numbers of one head dim and length."""

    kind: Literal["base_bound"] = "base_bound"
    head_dim: int
    length: int
    inclusive: bool
    every: int
    printed_bases: dict[str, float]  # tested beside the bound, by source


class GrowthSettings(Frozen):
    """What decides the power laws of one head dim."""

    kind: Literal["base_growth"] = "base_growth"
    head_dim: int
    lengths: tuple[int, ...]
    inclusive: bool
    every: int


class CountSettings(Frozen):
    """Men et al.'s Table 4, which leaves nothing to choose."""

    kind: Literal["men_table_4"] = "men_table_4"
    head_dim: int = HEAD_DIM


class PowerLaw(NamedTuple):
    """y = factor · x^exponent.

    Attributes:
        factor: of the law.
        exponent: of the law.
        interval: 95 % t-interval of the exponent, with two degrees of freedom fewer than points. It describes the scatter of
            the points about the line; nothing here is random.
    """

    factor: float
    exponent: float
    interval: tuple[float, float]


def fitted(points: Mapping[int, float]) -> PowerLaw:
    """Least squares of ln y on ln x.

    Args:
        points: y by x.

    Raises:
        ValueError: for fewer than three points, which leave no scatter to estimate an error from.
    """
    if len(points) < FEWEST_LENGTHS:
        raise ValueError(f"{len(points)} points: a power law with an error needs three or more")
    x, y = np.log(list(points)), np.log(list(points.values()))
    line: Any = stats.linregress(x, y)  # a named tuple whose names scipy does not declare
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2)) * float(line.stderr)
    exponent = float(line.slope)
    return PowerLaw(float(np.exp(line.intercept)), exponent, (exponent - half, exponent + half))


def jobs(exact: BaseBound) -> list[Job]:
    """For each head dim its lengths, ascending, and their growth; and Men et al.'s Table 4 if its head dim is among them.

    The search for a length goes on from the recorded result of the length before it.
    """
    planned: list[Job] = []
    convention = {"inclusive": exact.inclusive, "every": exact.every}
    for head_dim in dict.fromkeys(exact.head_dims):
        every: list[BoundSettings] = []
        for length in sorted(set(exact.lengths)):
            printed = {table.key: table.bases[length] for table in published_at(head_dim, length)}
            settings = BoundSettings(head_dim=head_dim, length=length, printed_bases=printed, **convention)
            shorter = every[-1] if every else None
            label = f"d = {head_dim}, {length:,} tokens{_convention(settings, ', m = N too', ', m by ')}"
            needs = () if shorter is None else (arm_name(shorter),)
            planned.append(Job(arm_name(settings), label, settings, partial(_bound, settings, shorter), needs=needs))
            every.append(settings)
        if len(every) >= FEWEST_LENGTHS:
            growth = GrowthSettings(head_dim=head_dim, lengths=tuple(bound.length for bound in every), **convention)
            names = {arm_name(bound): bound.length for bound in every}
            name = f"d{head_dim}-growth{_convention(growth, '-inclusive', '-every')}"
            label = f"d = {head_dim}, growth with the context{_convention(growth, ', m = N too', ', m by ')}"
            planned.append(Job(name, label, growth, partial(_growth, growth, names), needs=tuple(names)))
    if HEAD_DIM in exact.head_dims:
        planned.append(Job("men-table-4", "Men et al. 2024, Table 4", CountSettings(), independent(_table_4)))
    return planned


def arm_name(settings: BoundSettings) -> str:
    """As in d128-4k; with -inclusive where m = N is tested, and -everyN where only every N-th m is."""
    tokens = f"{settings.length // 1024}k" if settings.length % 1024 == 0 else str(settings.length)
    return f"d{settings.head_dim}-{tokens}{_convention(settings, '-inclusive', '-every')}"


def _convention(settings: BoundSettings | GrowthSettings, inclusive: str, every: str) -> str:
    return inclusive * settings.inclusive + f"{every}{settings.every}" * (settings.every > 1)


def _bound(settings: BoundSettings, shorter: BoundSettings | None, points: Mapping[str, Point], tell: Tell) -> Computed:
    bases = start(settings.head_dim, settings.length, settings.every)
    if shorter is not None and EDGES in points[arm_name(shorter)]:  # records may be published without this array
        bases = feasible_bases(points[arm_name(shorter)], shorter)
    bound = bound_of(search(bases, settings.length, settings.inclusive, lambda length: tell(length, settings.length)))
    ends = {"smallest_base": bound.infimum, "largest_infeasible_base": bound.largest_infeasible}
    point = {EDGES: np.array(bound.islands, np.float64).reshape(-1, 2)} | scalars(ends | {"islands": len(bound.islands)})
    for key, base in settings.printed_bases.items():
        of_base = inverse_frequencies(settings.head_dim, base)
        result = negative_distances(of_base, settings.length + settings.inclusive, every=settings.every)
        counts = {"violations": result.violations, "first_violation": result.first, "smallest_similarity": result.smallest}
        point |= scalars({"printed_base": base, **counts}, published=key)
        if settings.length <= LONGEST_CURVE:
            point[reading("similarity_sum", published=key)] = similarity_sums(of_base, settings.length).astype(np.float32)
    sources = {table.key: table.source for table in PUBLISHED if table.key in settings.printed_bases}
    return Computed(point, {"name": "none", "published": sources})


def feasible_bases(point: Point, settings: BoundSettings) -> FeasibleBases:
    """The bases that a recorded point of these settings describes, to search on from."""
    islands = np.log(point[EDGES])
    ray = (math.log(float(point[reading("largest_infeasible_base")])), math.inf)
    intervals = (*((float(low), float(high)) for low, high in islands), ray)
    return FeasibleBases(settings.head_dim, settings.every, settings.length + settings.inclusive, intervals)


def _growth(settings: GrowthSettings, names: Mapping[str, int], points: Mapping[str, Point], tell: Tell) -> Computed:  # noqa: ARG001
    """The power law of each bound over the lengths, and of the bases that two sources print."""
    laws = []
    for quantity in BOUNDS:
        bases = {length: float(points[name][reading(quantity)]) for name, length in names.items()}
        laws.append((fitted(bases), {"of": quantity}))
    for table in (MEN, SU):
        if table.head_dim == settings.head_dim:
            laws.append((fitted(table.bases), {"of": "printed_base", "published": table.key}))
    point: Point = {}
    for law, dims in laws:
        low, high = law.interval
        exponents = {"growth_exponent": law.exponent, "growth_exponent_low": low, "growth_exponent_high": high}
        point |= scalars(exponents | {"growth_factor": law.factor}, **dims)
    return Computed(point)


def _table_4() -> Computed:
    point: Point = {}
    for (name, distance), printed in MEN_TABLE_4.items():
        result = negative_distances(frequencies(name), distance + 1)  # the last distance is included
        counts = {"violations": result.violations, "printed_violations": printed, "first_violation": result.first}
        point |= scalars(counts, frequencies=name, distance=distance)
    return Computed(point)
