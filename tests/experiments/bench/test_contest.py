"""Contestants in processes of their own."""

from pathlib import Path
from typing import Any

import pytest

from experiments.bench.contest import Case, Contestant, ContestError, contest

HERE = "tests.experiments.bench.contestants"


def _case(*entries: tuple[str, str, dict[str, Any]], **settings: Any) -> Case:
    return Case("a case", tuple(Contestant(name, f"{HERE}:{entry}", own) for name, entry, own in entries), **settings)


def test_every_contestant_has_all_rounds_in_turn() -> None:
    case = _case(("ours", "sleeps", {"seconds": 0.0}), ("theirs", "sleeps", {"seconds": 0.01}))
    said: list[str] = []
    (ours, theirs), ceiling = contest(case, 2, said.append)
    assert ceiling is None
    assert (len(ours.rounds), len(theirs.rounds)) == (2, 2)
    assert min(theirs.rounds) >= 0.01
    assert ours.facts["colour"] == "red"
    assert ours.facts["peak_mib"] > 0
    assert [line.split(", ")[1] for line in said if "round" in line] == ["ours", "theirs"] * 2


def test_an_absent_peer_says_so_and_what_work_returned_is_told() -> None:
    (ours, theirs), _ = contest(_case(("ours", "counts", {"value": 1.0}), ("theirs", "absent", {})), 1, lambda _: None)
    assert ours.facts["found"] == 7
    assert theirs.rounds == ()
    assert "a_package_that_nobody_has is not installed" in theirs.facts["absent"]


def test_one_that_dies_says_how() -> None:
    with pytest.raises(ContestError, match="theirs ended by itself: ValueError: no luck"):
        contest(_case(("ours", "counts", {}), ("theirs", "dies", {})), 1, lambda _: None)


@pytest.mark.parametrize("value", [1.1, float("nan")])
def test_other_values_are_not_the_same_work(value: float) -> None:
    case = _case(("ours", "counts", {"value": 1.0}), ("theirs", "counts", {"value": value}))
    with pytest.raises(ContestError, match="not the same work"):
        contest(case, 1, lambda _: None)


def test_values_may_differ_by_the_tolerance() -> None:
    case = _case(("ours", "counts", {"value": 1.0}), ("theirs", "counts", {"value": 1.1}), tolerance=0.2)
    assert len(contest(case, 1, lambda _: None)[0]) == 2


def test_contestants_share_a_folder_and_no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    (ours, theirs), _ = contest(_case(("ours", "shares", {}), ("theirs", "shares", {})), 1, lambda _: None, tmp_path)
    assert (ours.facts["files"], theirs.facts["files"]) == (1, 2)
    assert theirs.facts["cache"] is None
