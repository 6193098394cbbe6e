"""Published bases under the exact test, power laws, and the report that the command prints."""

import json
import subprocess
import sys

import numpy as np
import pytest

from leadline.experiments.measure import bound
from leadline.experiments.measure.exact.base_bound import fitted
from leadline.model.positions.frequencies import inverse_frequencies


@pytest.mark.parametrize(
    ("key", "length", "first", "number"),
    [
        ("men2024", 4096, 4079, 2),
        ("men2024", 16384, None, 10),
        ("men2024", 32768, 27685, 7),
        ("men2024", 131072, None, 4),
        ("su2024", 131072, 125573, 2),
        ("su2024", 524288, None, 80),
        ("su2024", 1048576, None, 159),
        ("blog", 4096, 3679, 1),
        ("blog", 131072, 77293, 93),
        ("mixtral", 32768, 27115, None),
        ("men2024", 1024, None, 0),
        ("men2024", 8192, None, 0),
        ("su2024", 32768, None, 0),
        ("su2024", 65536, None, 0),
        ("llama3", 8192, 18438, 0),  # it first fails beyond its context
    ],
)
def test_published_bases(key, length, first, number):
    """First distances and numbers counted by an independent program; None where it noted only the other."""
    (table,) = [table for table in bound.PUBLISHED if table.key == key]
    result = bound.negative_distances(inverse_frequencies(table.head_dim, table.bases[length]), length)
    assert number in (None, result.violations)
    assert first in (None, result.first)
    assert (result.smallest < 0) == (result.violations > 0)
    assert result.violations or result.first is None or result.first >= length


def test_published_bases_are_found_by_head_dim_and_length():
    assert [table.key for table in bound.published_at(bound.HEAD_DIM, 4096)] == ["men2024", "su2024", "blog", "llama2"]
    assert [table.key for table in bound.published_at(64, 8192)] == ["smollm2"]
    assert bound.published_at(64, 1024) == bound.published_at(bound.HEAD_DIM, 1000) == []
    assert len({table.key for table in bound.PUBLISHED}) == len(bound.PUBLISHED)


def test_a_power_law_is_recovered():
    """Men et al. print 0.0424 x^1.628 in Figure 1: the least-squares line through their Table 2 with 1k = 1024."""
    assert fitted(bound.MEN.bases)["growth_factor"] == pytest.approx(0.0424, rel=5e-3)
    exact = {"growth_exponent": 1, "growth_exponent_low": 1, "growth_exponent_high": 1, "growth_factor": 3}
    assert fitted({1: 3.0, 2: 6.0, 4: 12.0, 8: 24.0}) == pytest.approx(exact)


def test_report_of_a_base_that_fails_and_of_one_that_holds():
    told = []
    report = json.loads(json.dumps(bound.bound_report(128, 4096, tell=told.append), allow_nan=False))
    assert list(report) == ["head_dim", "length", "infimum", "largest_infeasible", "islands", "published", "inclusive", "every"]
    assert report["infimum"] == report["islands"][0][0] == pytest.approx(26952.34, rel=1e-6)
    assert report["islands"][-1][1] < report["largest_infeasible"]
    assert list(report["published"])[:3] == [bound.MEN.source, bound.SU.source, bound.BLOG.source]
    fails, holds = report["published"][bound.MEN.source], bound.bound_report(128, 1024)["published"][bound.MEN.source]
    assert (fails["value"], fails["feasible"], fails["first_violation"], fails["violations"]) == (2.7e4, False, 4079, 2)
    assert (holds["feasible"], holds["first_violation"], holds["violations"]) == (True, None, 0)
    assert fails["minimum"] < 0 <= holds["minimum"] < 1
    assert told == sorted(told)
    assert told[-1] == 4096
    assert len(told) > 2


def test_report_of_distances_up_to_the_length():
    """N itself is the distance that N + 1 tokens have and N do not."""
    with_last, longer = bound.bound_report(64, 512, inclusive=True), bound.bound_report(64, 513)
    assert with_last["infimum"] == longer["infimum"]
    assert (with_last["length"], with_last["inclusive"]) == (512, True)


def test_report_of_a_subsample_of_distances():
    """Every 8th distance alone lets bases pass that are far below the exact bound."""
    assert bound.bound_report(32, 512, every=8)["infimum"] < bound.bound_report(32, 512)["infimum"] / 1.5
    angles = np.arange(0, 1024, 8.0)[:, None] * bound.MEN.bases[1024] ** (-np.arange(0, bound.HEAD_DIM, 2) / bound.HEAD_DIM)
    tested = bound.negative_distances(inverse_frequencies(bound.HEAD_DIM, bound.MEN.bases[1024]), 1024, every=8)
    assert tested.smallest == pytest.approx(np.cos(angles).sum(axis=1).min())


def test_report_of_no_feasible_base_is_valid_json():
    report = json.loads(json.dumps(bound.bound_report(2, 16), allow_nan=False))
    assert (report["infimum"], report["largest_infeasible"], report["islands"]) == (None, None, [])


def test_report_does_not_import_jax():
    program = "import sys, leadline.experiments.measure.bound; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
