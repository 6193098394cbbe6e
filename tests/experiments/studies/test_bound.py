"""Published bases under the exact test, and the report that the command prints."""

import json
import subprocess
import sys

import numpy as np
import pytest

from experiments.errors import UserError
from experiments.studies.bound import bound_report
from experiments.studies.published_bases import BLOG, HEAD_DIM, MEN, SU
from model.positions.base_bound import first_violation


@pytest.mark.parametrize(
    ("table", "length", "first", "number"),
    [
        (MEN, 4096, 4079, 2),
        (MEN, 16384, None, 10),
        (MEN, 32768, 27685, 7),
        (MEN, 131072, None, 4),
        (SU, 131072, 125573, 2),
        (SU, 524288, None, 80),
        (SU, 1048576, None, 159),
        (BLOG, 4096, 3679, 1),
        (BLOG, 131072, 77293, 93),
    ],
)
def test_published_bases_that_fail_their_own_criterion(table, length, first, number):
    """First distances and numbers counted once by an independent program; None where only the number was noted."""
    found = first_violation(table.bases[length], HEAD_DIM, length)
    assert found is not None
    assert found.number == number
    assert first is None or found.first == first
    assert found.minimum < 0


@pytest.mark.parametrize(("table", "length"), [(MEN, 1024), (MEN, 2048), (MEN, 8192), (SU, 32768), (SU, 65536)])
def test_published_bases_that_hold(table, length):
    assert first_violation(table.bases[length], HEAD_DIM, length) is None


def test_report_of_4096_tokens():
    report = json.loads(json.dumps(bound_report(128, 4096), allow_nan=False))
    assert list(report) == ["head_dim", "length", "infimum", "largest_infeasible", "islands", "published", "inclusive", "every"]
    assert (report["head_dim"], report["length"]) == (128, 4096)
    assert report["infimum"] == report["islands"][0][0] == pytest.approx(26952.34, rel=1e-6)
    assert report["islands"][-1][1] < report["largest_infeasible"]
    assert list(report["published"]) == [MEN.source, SU.source, BLOG.source]
    men = report["published"][MEN.source]
    assert (men["value"], men["feasible"], men["first_violation"], men["violations"]) == (2.7e4, False, 4079, 2)
    assert men["minimum"] < 0


def test_report_gives_the_smallest_sum_of_a_base_that_holds():
    verdict = bound_report(128, 1024)["published"][MEN.source]
    assert (verdict["feasible"], verdict["first_violation"], verdict["violations"]) == (True, None, 0)
    assert 0 <= verdict["minimum"] < 1


@pytest.mark.parametrize(("head_dim", "length"), [(64, 1024), (128, 1000)])
def test_report_without_published_values(head_dim, length):
    assert bound_report(head_dim, length)["published"] == {}


def test_report_of_distances_up_to_the_length():
    """N itself is the distance that N + 1 tokens have and N do not."""
    with_last, longer = bound_report(64, 512, inclusive=True), bound_report(64, 513)
    assert with_last["infimum"] == longer["infimum"]
    assert (with_last["length"], with_last["inclusive"]) == (512, True)


def test_report_of_a_subsample_of_distances():
    """Every 16th distance alone lets bases pass for 1k that are far below the exact bound of 4.3e3."""
    report = bound_report(128, 1024, every=16)
    distances = np.arange(0, 1024, 16.0)

    def least(base):
        return np.sum([np.cos(distances * base ** (-i / 64)) for i in range(64)], axis=0).min()

    assert report["infimum"] < 3e3
    assert least(report["infimum"] * (1 - 1e-7)) < 0 <= least(report["infimum"] * (1 + 1e-7))
    assert least(report["largest_infeasible"] * (1 - 1e-7)) < 0 <= least(report["largest_infeasible"] * (1 + 1e-7))
    verdict = report["published"][MEN.source]
    assert verdict["minimum"] == pytest.approx(least(MEN.bases[1024]))
    assert verdict["feasible"] == (verdict["minimum"] >= 0)


def test_report_tells_how_far_it_is():
    told = []
    bound_report(32, 1000, inclusive=True, every=3, tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1000
    assert len(told) > 2


def test_report_of_no_feasible_base_is_valid_json():
    report = json.loads(json.dumps(bound_report(2, 16), allow_nan=False))
    assert (report["infimum"], report["largest_infeasible"], report["islands"]) == (None, None, [])


@pytest.mark.parametrize(("head_dim", "length", "message"), [(127, 64, "head dim"), (0, 64, "head dim"), (64, 0, "length")])
def test_report_names_a_wrong_argument(head_dim, length, message):
    with pytest.raises(UserError, match=message):
        bound_report(head_dim, length)


def test_report_names_a_wrong_stride():
    with pytest.raises(UserError, match="every must be at least 1"):
        bound_report(64, 64, every=0)


def test_report_does_not_import_jax():
    program = "import sys, experiments.studies.bound; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
