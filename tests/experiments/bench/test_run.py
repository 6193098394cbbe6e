"""Contestants in processes of their own, benchmarks by name, and a run from the command line to its files."""

import ast
import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.bench import run, worker
from leadline.experiments.bench.contest import Benchmark, Case, Contestant, ContestError, contest
from leadline.experiments.bench.run import benchmarks, chosen
from leadline.experiments.runtime.errors import UserError
from tests.experiments.bench import contestants
from tests.experiments.called import Called

HERE = contestants.__name__


def _case(*entries: tuple[str, str, dict[str, Any]], **settings: Any) -> Case:
    return Case("a case", tuple(Contestant(name, f"{HERE}:{entry}", facts) for name, entry, facts in entries), **settings)


def test_contestants_take_turns_in_one_folder_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    said: list[str] = []
    case = _case(("ours", "shares", {"nap": contestants.Nap(0.0)}), ("theirs", "shares", {"nap": contestants.Nap(0.01)}))
    (ours, theirs), ceiling = contest(case, 2, said.append, tmp_path, {"NAME": "value"})
    assert ceiling is None
    assert (len(ours.rounds), len(theirs.rounds)) == (2, 2)
    assert min(theirs.rounds) >= 0.01
    assert [line.split(", ")[1] for line in said if "round" in line] == ["ours", "theirs"] * 2
    assert ours.facts["peak_mib"] > 0
    assert [(timed.facts["files"], timed.facts["cache"]) for timed in (ours, theirs)] == [(1, None), (2, None)]
    assert [timed.facts["variable"] for timed in (ours, theirs)] == ["value", "value"]


def test_an_absent_peer_says_so_and_values_may_differ_by_the_tolerance(tmp_path: Path) -> None:
    entries = ("ours", "counts", {"value": 1.0}), ("others", "counts", {"value": 1.1}), ("theirs", "absent", {})
    (ours, others, theirs), _ = contest(_case(*entries, tolerance=0.2), 1, lambda _: None, tmp_path, {})
    assert ours.facts["result"] == others.facts["result"] == 7
    assert theirs.rounds == ()
    assert "a_package_that_nobody_has is not installed" in theirs.facts["absent"]


@pytest.mark.parametrize("value", [1.1, float("nan")])
def test_a_contest_fails_where_contestants_do_not_do_the_same_work(tmp_path: Path, value: float) -> None:
    case = _case(("ours", "counts", {"value": 1.0}), ("theirs", "counts", {"value": value}))
    with pytest.raises(ContestError, match="not the same work"):
        contest(case, 1, lambda _: None, tmp_path, {})


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


def _tiny(entry: str, ours: str = "counts") -> Benchmark:
    case = _case(("ours", ours, {"value": 1.0}), ("theirs", entry, {}), targets={"theirs": 1e9})
    return Benchmark("tiny", "How long?", (case,), ("a note",))


@pytest.mark.parametrize("case", [case for benchmark in benchmarks() for case in benchmark.cases], ids=lambda case: case.title)
def test_contestants_of_a_case_are_there(case: Case) -> None:
    names = [contestant.name for contestant in case.contestants]
    assert len(set(names)) == len(names)
    assert set(case.targets) <= set(names[1:])
    for contestant in (*case.contestants, *([case.ceiling] if case.ceiling else [])):
        module, function = contestant.entry.split(":")
        spec = importlib.util.find_spec(module)
        assert spec is not None and spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))  # peers' packages may be absent
        (definition,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
        parameters = [argument.arg for argument in definition.args.args]
        required = parameters[: len(parameters) - len(definition.args.defaults)]
        assert set(required) <= set(contestant.settings) <= set(parameters)


def machine(accelerator: str | None = None) -> dict[str, Any]:
    return {"machine": {"accelerator": accelerator, "device_kind": "a device"}}


def test_names_choose() -> None:
    models = "step parts attention mechanisms sweep evaluation sinks decode published"
    others = "tokenization compile startup records pipeline loop"
    assert [benchmark.name for benchmark in chosen([], [], machine())] == models.split() + others.split()
    assert [benchmark.name for benchmark in chosen(["sweep", "step", "sweep"], [], machine())] == ["sweep", "step"]
    for name, message in (("start-up", "did you mean 'startup'"), ("xyz", "valid here: step")):
        with pytest.raises(UserError, match=message):
            chosen([name], [], machine())


@pytest.mark.parametrize(("accelerator", "titles"), [(None, ["any", "cpu"]), ("1 x NVIDIA H200", ["any", "accelerator"])])
def test_a_case_runs_where_it_is_for(accelerator: str | None, titles: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cases = tuple(Case(where or "any", (), where=where) for where in (None, "cpu", "accelerator"))
    monkeypatch.setattr(run, "benchmarks", lambda: (Benchmark("some", "Which?", cases),))
    (benchmark,) = chosen([], [], machine(accelerator))
    assert [case.title for case in benchmark.cases] == titles


def test_cases_are_chosen_by_a_part_of_their_title() -> None:
    (benchmark,) = chosen(["step"], ["L2 d64", "T4096"], machine())
    assert {case.title.split()[2] for case in benchmark.cases} == {"L2", "L4"}
    for names, cases, message in (
        ([], ["xyz"], "no title has that; the cases of this machine are: training step, L2"),
        (["tiles"], [], "tiles: has cases for an accelerator alone"),
    ):
        with pytest.raises(UserError, match=message):
            chosen(names, cases, machine())


def test_the_page_keeps_the_last_outcome_of_each_kind_of_machine(tmp_path: Path) -> None:
    versions = {"versions": {}, "commit": None, "dirty": None, "date": "2026-11-26", "rounds": 1, "cases": [], "notes": []}
    hosts = [
        {"cpu": "a", "accelerator": None},
        {"cpu": "b", "accelerator": "H"},
        {"cpu": "c", "accelerator": None, "without": "AVX-512"},
        {"cpu": "d", "accelerator": None},
    ]
    for host in hosts:
        about = {"machine": {"cores": 2, "memory_gib": None, **host}}
        run.keep(tmp_path, {"benchmark": "some", "question": "Which?", **about, **versions})
    kept = json.loads((tmp_path / "bench.json").read_text())["benchmarks"]
    assert [outcome["machine"]["cpu"] for outcome in kept] == ["d", "c", "b"]
    assert "c, 2 cores, AVX-512 hidden from JAX, oneDNN and MKL" in (tmp_path / "bench.md").read_text()


def test_from_the_command_line_to_the_files(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny("absent"),))
    (content,) = called.json("bench", "tiny", "--rounds", "1", "--results", tmp_path)["benchmarks"]
    assert json.loads((tmp_path / "bench.json").read_text())["benchmarks"] == [content]
    machine = content["machine"]
    assert machine["cpu"] and machine["cores"] >= 1 and (machine["memory_gib"] or 1) > 0
    assert {"python", "jax", "tokenizers"} <= set(content["versions"])
    assert len(content["cases"][0]["contestants"][0]["rounds"]) == 1
    assert "is not installed" in (tmp_path / "bench.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("entry", "last_words"), [("dies", "ValueError: no luck"), ("dies_later", "exit code 3")])
def test_a_contestant_that_dies_is_a_failure(
    entry: str, last_words: str, called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny(entry, "slow"),))
    code, _, err = called("bench", "--rounds", "2", "--results", tmp_path)
    assert code == 1
    assert f"leadline: benchmark tiny: theirs died: {last_words}" in err
    assert not list(tmp_path.iterdir())


def test_the_list_has_the_questions(called: Called) -> None:
    assert "How long does a training step take?" in called.text("bench", "--list")
