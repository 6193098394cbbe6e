"""Lower bounds of the RoPE base: a job for each head dim and length, for their growth, and for Men et al.'s Table 4."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import BaseBound
from leadline.experiments.measure.bound.power_law import PowerLaw, fitted
from leadline.experiments.measure.bound.published import HEAD_DIM, MEN, MEN_TABLE_4, PUBLISHED, SU, frequencies, published_at
from leadline.experiments.measure.bound.search import negative_distances, search, start
from leadline.experiments.measure.exact.job import Computed, Job, Tell, independent
from leadline.experiments.measure.scalars import scalars
from leadline.experiments.records.measurement import Point, reading
from leadline.model.base_bound.bound import FeasibleBases, bound_of
from leadline.model.base_bound.sums import similarity_sums
from leadline.model.positions.frequencies import inverse_frequencies

# B_m is kept by distance for contexts up to this length: 16 kB a curve.
LONGEST_CURVE = 4096
# Lengths from which a power law is fitted.
FEWEST_LENGTHS = 3
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


def jobs(exact: BaseBound) -> list[Job]:
    """For each head dim its lengths, ascending, and their growth; and Men et al.'s Table 4 if its head dim is among them.

    The search for a length goes on from the recorded result of the length before it.
    """
    planned: list[Job] = []
    lengths = sorted(set(exact.lengths))
    for head_dim in dict.fromkeys(exact.head_dims):
        every = [_settings(exact, head_dim, length) for length in lengths]
        planned += [_bound_job(settings, shorter) for shorter, settings in pairwise([None, *every]) if settings is not None]
        if len(lengths) >= FEWEST_LENGTHS:
            planned.append(_growth_job(every))
    if HEAD_DIM in exact.head_dims:
        planned.append(Job("men-table-4", "Men et al. 2024, Table 4", CountSettings(), independent(_table_4)))
    return planned


def arm_name(settings: BoundSettings) -> str:
    """As in d128-4k; with -inclusive where m = N is tested, and -everyN where only every N-th m is."""
    tokens = f"{settings.length // 1024}k" if settings.length % 1024 == 0 else str(settings.length)
    return f"d{settings.head_dim}-{tokens}{_convention(settings, '-inclusive', '-every')}"


def _label(settings: BoundSettings) -> str:
    return f"d = {settings.head_dim}, {settings.length:,} tokens{_convention(settings, ', m = N too', ', m by ')}"


def _convention(settings: BoundSettings | GrowthSettings, inclusive: str, every: str) -> str:
    return inclusive * settings.inclusive + f"{every}{settings.every}" * (settings.every > 1)


def _settings(exact: BaseBound, head_dim: int, length: int) -> BoundSettings:
    printed = {table.key: table.bases[length] for table in published_at(head_dim, length)}
    return BoundSettings(head_dim=head_dim, length=length, inclusive=exact.inclusive, every=exact.every, printed_bases=printed)


def _bound_job(settings: BoundSettings, shorter: BoundSettings | None) -> Job:
    needs = () if shorter is None else (arm_name(shorter),)
    return Job(arm_name(settings), _label(settings), settings, partial(_bound, settings, shorter), needs=needs)


def _bound(settings: BoundSettings, shorter: BoundSettings | None, points: Mapping[str, Point], tell: Tell) -> Computed:
    bases = start(settings.head_dim, settings.length, settings.every)
    if shorter is not None and EDGES in points[arm_name(shorter)]:  # records may be published without this array
        bases = feasible_bases(points[arm_name(shorter)], shorter)
    bound = bound_of(search(bases, settings.length, settings.inclusive, lambda length: tell(length, settings.length)))
    edges = {EDGES: np.array(bound.islands, np.float64).reshape(-1, 2)}
    bounds = {
        "smallest_base": bound.infimum,
        "largest_infeasible_base": bound.largest_infeasible,
        "islands": len(bound.islands),
    }
    point = edges | scalars(bounds)
    for key, base in settings.printed_bases.items():
        point |= _published(settings, key, base)
    sources = {table.key: table.source for table in PUBLISHED if table.key in settings.printed_bases}
    return Computed(point, {"name": "none", "published": sources})


def feasible_bases(point: Point, settings: BoundSettings) -> FeasibleBases:
    """The bases that a recorded point of these settings describes, to search on from."""
    islands = np.log(point[EDGES])
    ray = (math.log(float(point[reading("largest_infeasible_base")])), math.inf)
    intervals = (*((float(low), float(high)) for low, high in islands), ray)
    return FeasibleBases(settings.head_dim, settings.every, settings.length + settings.inclusive, intervals)


def _published(settings: BoundSettings, key: str, base: float) -> Point:
    of_base = inverse_frequencies(settings.head_dim, base)
    result = negative_distances(of_base, settings.length + settings.inclusive, every=settings.every)
    counts = {"violations": result.violations, "first_violation": result.first, "smallest_similarity": result.smallest}
    point = scalars({"printed_base": base, **counts}, published=key)
    if settings.length <= LONGEST_CURVE:
        point[reading("similarity_sum", published=key)] = similarity_sums(of_base, settings.length).astype(np.float32)
    return point


def _growth_job(every: Sequence[BoundSettings]) -> Job:
    first = every[0]
    shared = {"head_dim": first.head_dim, "inclusive": first.inclusive, "every": first.every}
    settings = GrowthSettings(lengths=tuple(bound.length for bound in every), **shared)
    names = {arm_name(bound): bound.length for bound in every}
    name = f"d{settings.head_dim}-growth{_convention(settings, '-inclusive', '-every')}"
    label = f"d = {settings.head_dim}, growth with the context{_convention(settings, ', m = N too', ', m by ')}"
    return Job(name, label, settings, partial(_growth, settings, names), needs=tuple(names))


def _growth(settings: GrowthSettings, names: Mapping[str, int], points: Mapping[str, Point], tell: Tell) -> Computed:  # noqa: ARG001
    """The power law of each bound over the lengths, and of the bases that two sources print."""
    point: Point = {}
    for quantity in BOUNDS:
        bases = {length: float(points[name][reading(quantity)]) for name, length in names.items()}
        point |= _law(fitted(bases), of=quantity)
    for table in (MEN, SU):
        if table.head_dim == settings.head_dim:
            point |= _law(fitted(table.bases), of="printed_base", published=table.key)
    return Computed(point)


def _law(law: PowerLaw, **dims: str) -> Point:
    low, high = law.interval
    ends = {"growth_exponent_low": low, "growth_exponent_high": high}
    return scalars({"growth_exponent": law.exponent, **ends, "growth_factor": law.factor}, **dims)


def _table_4() -> Computed:
    point: Point = {}
    for row in MEN_TABLE_4:
        result = negative_distances(frequencies(row.frequencies), row.distance + 1)  # the last distance is included
        counts = {"violations": result.violations, "printed_violations": row.printed, "first_violation": result.first}
        point |= scalars(counts, frequencies=row.frequencies, distance=row.distance)
    return Computed(point)
