"""Jobs of the bound of the RoPE base."""

from collections.abc import Mapping

import numpy as np
import pytest

from leadline.experiments.config.exact import BaseBound
from leadline.experiments.measure.bound import HEAD_DIM, MEN, start
from leadline.experiments.measure.exact import base_bound
from leadline.experiments.measure.exact.base_bound import feasible_bases, jobs
from leadline.experiments.records.measurement import Point, reading
from leadline.model.base_bound.bound import restricted

EXACT = BaseBound(head_dims=(32, 128), lengths=(512, 64, 4096))


def ran(exact: BaseBound) -> dict[str, Point]:
    points: dict[str, Point] = {}
    for job in jobs(exact):
        points[job.name] = job.compute({name: points[name] for name in job.needs}, lambda done, steps: None).point  # noqa: ARG005
    return points


@pytest.fixture(scope="module")
def points() -> dict[str, Point]:
    return ran(EXACT)


def value(points: Mapping[str, Point], arm: str, quantity: str, **dims: str | int) -> float:
    return float(points[arm][reading(quantity, **dims)])


def test_arms_tell_head_dim_length_and_convention_apart() -> None:
    of_head = ("64", "512", "4k", "growth")
    names = [f"d{head_dim}-{of}" for head_dim in (32, 128) for of in of_head]
    assert [job.name for job in jobs(EXACT)] == [*names, "men-table-4"]
    other = jobs(BaseBound(head_dims=(64,), lengths=(1024,), inclusive=True, every=8))
    assert [(job.name, job.label) for job in other] == [("d64-1k-inclusive-every8", "d = 64, 1,024 tokens, m = N too, m by 8")]


def test_bounds_are_those_of_an_independent_search_on_a_grid(points: dict[str, Point]) -> None:
    bounds = [value(points, f"d{d}-512", quantity) for d in (32, 128) for quantity in base_bound.BOUNDS]
    assert bounds == pytest.approx([1.25e4, 1.88e4, 2066, 2934], rel=5e-3)
    assert value(points, "d128-4k", "smallest_base") == pytest.approx(26952.34, rel=1e-6)


def test_a_length_goes_on_from_the_recorded_point_of_the_one_before_it(points: dict[str, Point]) -> None:
    """To the resolution of the search, the bases are those without the shorter lengths."""
    alone = ran(BaseBound(head_dims=(32,), lengths=(4096,)))["d32-4k"]
    for key, array in alone.items():
        np.testing.assert_allclose(array, points["d32-4k"][key], rtol=1e-8)
    (job,) = [job for job in jobs(EXACT) if job.name == "d32-4k"]
    told: list[int] = []
    job.compute({"d32-512": points["d32-512"]}, lambda done, steps: told.append(done))  # noqa: ARG005
    assert told[0] > 512
    assert told[-1] == 4096


def test_recorded_bases_are_those_of_the_search(points: dict[str, Point]) -> None:
    (job,) = [job for job in jobs(EXACT) if job.name == "d32-512"]
    bases = feasible_bases(points["d32-512"], job.settings)  # pyright: ignore[reportArgumentType]
    expected = restricted(start(32, 512, 1), 512)
    assert (bases.head_dim, bases.every, bases.length) == (32, 1, 512)
    np.testing.assert_allclose(bases.intervals, expected.intervals, rtol=1e-12)


def test_published_bases_are_tested_at_their_length(points: dict[str, Point]) -> None:
    men = {quantity: value(points, "d128-4k", quantity, published="men2024") for quantity in ("violations", "first_violation")}
    assert men == {"violations": 2, "first_violation": 4079}
    assert value(points, "d128-4k", "printed_base", published="men2024") == MEN.bases[4096]
    curve = points["d128-4k"][reading("similarity_sum", published="men2024")]
    assert np.flatnonzero(curve < 0)[0] == 4079
    assert curve[0] == HEAD_DIM / 2
    assert value(points, "d128-4k", "smallest_similarity", published="men2024") == pytest.approx(curve.min(), abs=1e-5)


def test_growth_is_fitted_to_every_length_and_to_what_is_printed(points: dict[str, Point]) -> None:
    bases = [value(points, f"d128-{name}", "smallest_base") for name in ("64", "512", "4k")]
    slope = np.polyfit(np.log([64, 512, 4096]), np.log(bases), 1)[0]
    exponents = [value(points, "d128-growth", f"growth_exponent{end}", of="smallest_base") for end in ("_low", "", "_high")]
    assert exponents == sorted(exponents)
    assert exponents[1] == pytest.approx(slope)
    printed = value(points, "d128-growth", "growth_exponent", of="printed_base", published="men2024")
    assert printed == pytest.approx(1.628, abs=5e-4)
    assert not any(key.dims == (("of", "printed_base"),) for key in points["d32-growth"])
    assert "d32-growth" not in [job.name for job in jobs(BaseBound(head_dims=(32,), lengths=(64, 128)))]


def test_men_table_4_is_counted_again(points: dict[str, Point]) -> None:
    counts = {key.dims: float(array) for key, array in points["men-table-4"].items() if key.quantity == "violations"}
    printed = {key.dims: float(array) for key, array in points["men-table-4"].items() if key.quantity == "printed_violations"}
    assert counts == printed
    assert sorted(counts.values()) == [0, 0, 97, 2554]
