"""Contestants in processes of their own."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.bench import worker
from leadline.experiments.bench.contest import Case, Contestant, ContestError, contest
from tests.experiments.bench import contestants

HERE = contestants.__name__


def _case(*entries: tuple[str, str, dict[str, Any]], **settings: Any) -> Case:
    return Case("a case", tuple(Contestant(name, f"{HERE}:{entry}", facts) for name, entry, facts in entries), **settings)


def test_contestants_take_turns_in_one_folder_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    said: list[str] = []
    case = _case(("ours", "shares", {"nap": contestants.Nap(0.0)}), ("theirs", "shares", {"nap": contestants.Nap(0.01)}))
    (ours, theirs), ceiling = contest(case, 2, said.append, tmp_path)
    assert ceiling is None
    assert (len(ours.rounds), len(theirs.rounds)) == (2, 2)
    assert min(theirs.rounds) >= 0.01
    assert [line.split(", ")[1] for line in said if "round" in line] == ["ours", "theirs"] * 2
    assert ours.facts["peak_mib"] > 0
    assert [(timed.facts["files"], timed.facts["cache"]) for timed in (ours, theirs)] == [(1, None), (2, None)]


def test_an_absent_peer_says_so_and_values_may_differ_by_the_tolerance(tmp_path: Path) -> None:
    entries = ("ours", "counts", {"value": 1.0}), ("others", "counts", {"value": 1.1}), ("theirs", "absent", {})
    (ours, others, theirs), _ = contest(_case(*entries, tolerance=0.2), 1, lambda _: None, tmp_path)
    assert ours.facts["result"] == others.facts["result"] == 7
    assert theirs.rounds == ()
    assert "a_package_that_nobody_has is not installed" in theirs.facts["absent"]


@pytest.mark.parametrize("value", [1.1, float("nan")])
def test_a_contest_fails_where_contestants_do_not_do_the_same_work(tmp_path: Path, value: float) -> None:
    case = _case(("ours", "counts", {"value": 1.0}), ("theirs", "counts", {"value": value}))
    with pytest.raises(ContestError, match="not the same work"):
        contest(case, 1, lambda _: None, tmp_path)


def test_a_round_repeats_short_work_and_facts_replace_those_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["worker", f"{HERE}:repeats", "{}"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\ngo\n"))
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.0)
    worker.main()
    facts, *rounds = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert facts == {"peak_mib": None}
    assert [set(times) for times in rounds] == [{"seconds"}] * 2
    assert len(contestants.DONE) == 1 + 2 * worker.LEAST
