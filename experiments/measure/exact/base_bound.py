"""Lower bounds of the RoPE base: a job for each head dim and length, for their growth, and for Men et al.'s Table 4."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import stats

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import BaseBound
from leadline.experiments.measure import bound
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
    head_dim: int = bound.HEAD_DIM


def fitted(points: Mapping[int, float]) -> dict[str, float]:
    """The power law y = growth_factor · x^growth_exponent by least squares of ln y on ln x, of points y by x.

    `growth_exponent_low` and `growth_exponent_high` bound the 95 % t-interval of the exponent, with two degrees of freedom
    fewer than points. It describes the scatter of the points about the line; nothing here is random.

    Raises:
        ValueError: for fewer than three points, which leave no scatter to estimate an error from.
    """
    if len(points) < FEWEST_LENGTHS:
        raise ValueError(f"{len(points)} points: a power law with an error needs three or more")
    x, y = np.log(list(points)), np.log(list(points.values()))
    line: Any = stats.linregress(x, y)  # a named tuple whose names scipy does not declare
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2)) * float(line.stderr)
    exponent = float(line.slope)
    ends = {"growth_exponent_low": exponent - half, "growth_exponent_high": exponent + half}
    return {"growth_exponent": exponent, **ends, "growth_factor": float(np.exp(line.intercept))}


def jobs(exact: BaseBound) -> list[Job]:
    """For each head dim its lengths, ascending, and their growth; and Men et al.'s Table 4 if its head dim is among them.

    An arm is named as in d128-4k; with -inclusive where m = N is tested, and -everyN where only every N-th m is. The search for
    a length goes on from the recorded result of the length before it.
    """
    planned: list[Job] = []
    convention = {"inclusive": exact.inclusive, "every": exact.every}
    suffix = "-inclusive" * exact.inclusive + f"-every{exact.every}" * (exact.every > 1)
    tested = ", m = N too" * exact.inclusive + f", m by {exact.every}" * (exact.every > 1)
    for head_dim in dict.fromkeys(exact.head_dims):
        bounds: dict[str, BoundSettings] = {}
        for length in sorted(set(exact.lengths)):
            printed = {table.key: table.bases[length] for table in bound.published_at(head_dim, length)}
            settings = BoundSettings(head_dim=head_dim, length=length, printed_bases=printed, **convention)
            name = f"d{head_dim}-{f'{length // 1024}k' if length % 1024 == 0 else length}{suffix}"
            shorter = dict(list(bounds.items())[-1:])
            compute = partial(_bound, settings, shorter)
            planned.append(Job(name, f"d = {head_dim}, {length:,} tokens{tested}", settings, compute, needs=tuple(shorter)))
            bounds[name] = settings
        if len(bounds) >= FEWEST_LENGTHS:
            lengths = {name: settings.length for name, settings in bounds.items()}
            growth = GrowthSettings(head_dim=head_dim, lengths=tuple(lengths.values()), **convention)
            label = f"d = {head_dim}, growth with the context{tested}"
            compute = partial(_growth, growth, lengths)
            planned.append(Job(f"d{head_dim}-growth{suffix}", label, growth, compute, needs=tuple(bounds)))
    if bound.HEAD_DIM in exact.head_dims:
        planned.append(Job("men-table-4", "Men et al. 2024, Table 4", CountSettings(), independent(_table_4)))
    return planned


def _bound(settings: BoundSettings, shorter: Mapping[str, BoundSettings], points: Mapping[str, Point], tell: Tell) -> Computed:
    """The bound of one length, searched on from that of a shorter one, by name, if there is one."""
    bases = bound.start(settings.head_dim, settings.length, settings.every)
    for name, before in shorter.items():
        if EDGES in points[name]:  # records may be published without this array
            bases = feasible_bases(points[name], before)
    bases = bound.search(bases, settings.length, settings.inclusive, lambda length: tell(length, settings.length))
    infimum, largest, islands = bound_of(bases)
    point: Point = {EDGES: np.array(islands, np.float64).reshape(-1, 2)}
    point |= scalars({"smallest_base": infimum, "largest_infeasible_base": largest, "islands": len(islands)})
    for key, base in settings.printed_bases.items():
        of_base = inverse_frequencies(settings.head_dim, base)
        result = bound.negative_distances(of_base, settings.length + settings.inclusive, every=settings.every)
        point |= scalars({"printed_base": base, **result.numbers()}, published=key)
        if settings.length <= LONGEST_CURVE:
            point[reading("similarity_sum", published=key)] = similarity_sums(of_base, settings.length).astype(np.float32)
    sources = {table.key: table.source for table in bound.PUBLISHED if table.key in settings.printed_bases}
    return Computed(point, {"name": "none", "published": sources})


def feasible_bases(point: Point, settings: BoundSettings) -> FeasibleBases:
    """The bases that a recorded point of these settings describes, to search on from."""
    islands = np.log(point[EDGES])
    ray = (math.log(float(point[reading("largest_infeasible_base")])), math.inf)
    intervals = (*((float(low), float(high)) for low, high in islands), ray)
    return FeasibleBases(settings.head_dim, settings.every, settings.length + settings.inclusive, intervals)


def _growth(settings: GrowthSettings, names: Mapping[str, int], points: Mapping[str, Point], tell: Tell) -> Computed:  # noqa: ARG001
    """The power law of each bound over the lengths, and of the bases that two sources print."""
    point: Point = {}
    for quantity in BOUNDS:
        bases = {length: float(points[name][reading(quantity)]) for name, length in names.items()}
        point |= scalars(fitted(bases), of=quantity)
    for table in (bound.MEN, bound.SU):
        if table.head_dim == settings.head_dim:
            point |= scalars(fitted(table.bases), of="printed_base", published=table.key)
    return Computed(point)


def _table_4() -> Computed:
    point: Point = {}
    for (name, distance), printed in bound.MEN_TABLE_4.items():
        result = bound.negative_distances(bound.frequencies(name), distance + 1)  # the last distance is included
        counts = {"violations": result.violations, "printed_violations": printed, "first_violation": result.first}
        point |= scalars(counts, frequencies=name, distance=distance)
    return Computed(point)
