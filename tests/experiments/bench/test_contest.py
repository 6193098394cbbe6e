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


def test_an_absent_peer_says_so_and_values_may_differ_by_the_tolerance() -> None:
    entries = ("ours", "counts", {"value": 1.0}), ("others", "counts", {"value": 1.1}), ("theirs", "absent", {})
    (ours, others, theirs), _ = contest(_case(*entries, tolerance=0.2), 1, lambda _: None)
    assert ours.facts["result"] == others.facts["result"] == 7
    assert theirs.rounds == ()
    assert "a_package_that_nobody_has is not installed" in theirs.facts["absent"]


@pytest.mark.parametrize(
    ("entry", "settings", "message"),
    [
        ("dies", {}, "theirs died: ValueError: no luck"),
        ("counts", {"value": 1.1}, "not the same work"),
        ("counts", {"value": float("nan")}, "not the same work"),
    ],
)
def test_a_contest_fails_where_contestants_do_not_do_the_same_work(entry: str, settings: dict, message: str) -> None:
    with pytest.raises(ContestError, match=message):
        contest(_case(("ours", "counts", {"value": 1.0}), ("theirs", entry, settings)), 1, lambda _: None)


def test_contestants_share_a_folder_and_no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    (ours, theirs), _ = contest(_case(("ours", "shares", {}), ("theirs", "shares", {})), 1, lambda _: None, tmp_path)
    assert (ours.facts["files"], theirs.facts["files"]) == (1, 2)
    assert theirs.facts["cache"] is None


@pytest.mark.parametrize(
    ("entry", "settings", "first"),
    [
        ("counts", {"value": 2.0}, {"value": 2.0, "result": 7}),
        ("counts", {"peak_mib": None}, {"peak_mib": None}),
        ("absent", {}, {}),
        ("repeats", {}, {}),
    ],
)
def test_a_worker_prints_its_facts_and_then_its_rounds(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    entry: str,
    settings: dict[str, Any],
    first: dict[str, Any],
) -> None:
    monkeypatch.setattr(sys, "argv", ["worker", f"{HERE}:{entry}", json.dumps(settings)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\ngo\n"))
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.0)
    worker.main()
    facts, *rounds = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert facts.items() >= first.items()
    assert ("absent" in facts) == (entry == "absent")
    assert [set(times) for times in rounds] == [{"seconds"}] * (0 if entry == "absent" else 2)
    if entry == "repeats":
        assert len(contestants.DONE) == 1 + 2 * worker.LEAST
