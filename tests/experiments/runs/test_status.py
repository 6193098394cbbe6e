"""What is shown of the groups of a results folder: by running processes, and by those that have died."""

from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.cli import console
from leadline.experiments.runs.status import going, groups_at, row
from leadline.experiments.runtime.worker import Worker
from tests.experiments.called import Called


def _told(name: str, state: str, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"sinks/{name}",
        "study": "sinks",
        "arms": [name],
        "models": 2,
        "state": state,
        "step": 0,
        "steps": 600,
    } | facts


def _worker(results: Path, *groups: dict[str, Any]) -> Worker:
    worker = Worker(results)
    worker.groups = lambda: list(groups)
    return worker


def test_a_group_that_a_worker_trains_is_running_although_its_run_lists_it_as_waiting(tmp_path: Path) -> None:
    numbers = {"step": 1200, "steps": 2000, "loss": 2.41, "tokens_per_second": 51234.5, "seconds_left": 75.2}
    run = _worker(tmp_path, *(_told(name, "waiting") for name in ("softmax", "gate")), _told("window", "finished"))
    with run, _worker(tmp_path, _told("softmax", "running", **numbers)) as worker:
        groups = {group["arms"][0]: group for group in groups_at(tmp_path)}
        assert {name: group["state"] for name, group in groups.items()} == {
            "softmax": "running",
            "gate": "waiting",
            "window": "finished",
        }
        assert (groups["softmax"]["pid"], groups["softmax"]["loss"]) == (worker.owner["pid"], 2.41)
        shown = row(groups["softmax"])
        assert list(shown.values()) == [
            *("sinks", "softmax", "2", f"running on {worker.owner['host']}"),
            *("1,200 of 2,000", "2.4100", "51,234", "0:01:15", ""),
        ]
        assert going(shown) and going(row(groups["gate"])) and not going(row(groups["window"]))


def test_what_a_process_left_that_has_ended_is_stale_unless_another_one_has_it(tmp_path: Path) -> None:
    dead = _worker(
        tmp_path, _told("softmax", "running"), _told("gate", "waiting"), _told("window", "failed", error="disk full")
    )
    with dead:
        pass
    assert [group["state"] for group in groups_at(tmp_path)] == ["stale", "stale", "failed"]
    assert row(groups_at(tmp_path)[2])["error"] == "disk full"
    with _worker(tmp_path, _told("softmax", "finished"), _told("gate", "running")):
        assert [group["state"] for group in groups_at(tmp_path)] == ["finished", "running", "failed"]


def test_a_row_names_few_of_many_arms(tmp_path: Path) -> None:
    with _worker(tmp_path, _told("many", "waiting", arms=["a", "b", "c", "d", "e"])):
        assert row(groups_at(tmp_path)[0])["arms"] == "a, b, c, 2 more"


def test_the_command_shows_a_table_or_json(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "START", 0.0)
    assert "leadline show" in called.text("status", tmp_path)
    assert "there is no such results folder" in called.mistake("status", tmp_path / "nowhere")
    assert "--watch has no effect with --json" in called.mistake("status", tmp_path, "--watch", "--json")
    with _worker(tmp_path, _told("softmax", "finished")):
        (group,) = called.json("status", tmp_path)["groups"]
        assert (group["study"], group["state"], group["loss"]) == ("sinks", "finished", None)
        assert called.text("status", tmp_path).split()[-7:-3] == ["sinks", "softmax", "2", "finished"]
        assert "finished" in called.text("status", tmp_path, "--watch")


def test_a_watch_waits_for_a_run_to_begin(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause of the watch changes the state of the group, from stale to running to finished."""
    states = iter(["running", "finished"])
    monkeypatch.setattr(console.time, "sleep", lambda seconds: told.update(state=next(states)) or worker.beat())  # noqa: ARG005
    told = _told("softmax", "stale")
    with _worker(tmp_path, told) as worker:
        assert "finished" in called.text("status", tmp_path, "--watch")
    assert next(states, None) is None


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        "a text",
        _told("gate", "paused"),
        _told("gate", "running", step="1"),
        _told("gate", "running", seconds_left=1e300),
        _told("gate", "running", seconds_left=float("inf")),
    ],
)
def test_a_group_that_is_told_of_in_another_form_is_left_out(tmp_path: Path, damaged: Any) -> None:
    with _worker(tmp_path, damaged, _told("softmax", "running")):
        assert [row(group)["arms"] for group in groups_at(tmp_path)] == ["softmax"]


def test_a_file_without_a_list_of_groups_is_left_out(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.groups = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    with worker:
        assert groups_at(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{", '{"groups": []}'])
def test_a_file_that_is_no_workers_is_no_group(tmp_path: Path, content: str) -> None:
    with _worker(tmp_path):
        (tmp_path / ".workers" / "other-1-0.json").write_text(content)
        assert groups_at(tmp_path) == []
