"""Benchmarks by name, their contestants, and a run from the command line to its files."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

from leadline.experiments.bench import run
from leadline.experiments.bench.contest import Benchmark, Case, Contestant
from leadline.experiments.bench.run import benchmarks, chosen
from leadline.experiments.runtime.errors import UserError
from tests.experiments.called import Called

HERE = "tests.experiments.bench.contestants"


def _tiny(entry: str) -> Benchmark:
    ours, theirs = Contestant("ours", f"{HERE}:counts", {"value": 1.0}), Contestant("theirs", f"{HERE}:{entry}", {})
    return Benchmark("tiny", "How long?", (Case("a case", (ours, theirs), targets={"theirs": 1e9}),), ("a note",))


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


def test_names_choose() -> None:
    expected = "step attention mechanisms sweep evaluation sinks decode tokenization compile startup pipeline"
    assert [benchmark.name for benchmark in chosen([])] == expected.split()
    assert [benchmark.name for benchmark in chosen(["sweep", "step", "sweep"])] == ["sweep", "step"]
    for name, message in (("start-up", "did you mean 'startup'"), ("xyz", "valid here: step")):
        with pytest.raises(UserError, match=message):
            chosen([name])


@pytest.mark.parametrize(("accelerator", "titles"), [(None, ["any", "cpu"]), ("1 x NVIDIA H200", ["any", "accelerator"])])
def test_a_case_runs_where_it_is_for(accelerator: str | None, titles: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "contest", lambda *_: ([], None))
    monkeypatch.setattr(run, "outcome", lambda case, *_: {"title": case.title})
    cases = tuple(Case(where or "any", (), where=where) for where in (None, "cpu", "accelerator"))
    about = {"machine": {"accelerator": accelerator, "device_kind": "a device"}}
    content = run.measured(Benchmark("some", "Which?", cases), 1, about, lambda _: None, lambda _: None)
    assert [case["title"] for case in content["cases"]] == titles


def test_from_the_command_line_to_the_files(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny("absent"),))
    (content,) = called.json("bench", "tiny", "--rounds", "1", "--results", tmp_path)["benchmarks"]
    assert json.loads((tmp_path / "tiny.json").read_text()) == content
    machine = content["machine"]
    assert machine["cpu"] and machine["cores"] >= 1 and (machine["memory_gib"] or 1) > 0
    assert {"python", "jax", "tokenizers"} <= set(content["versions"])
    assert len(content["cases"][0]["contestants"][0]["rounds"]) == 1
    assert "is not installed" in (tmp_path / "bench.md").read_text(encoding="utf-8")


def test_a_contestant_that_dies_is_a_failure(called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny("dies"),))
    code, _, err = called("bench", "--rounds", "1", "--results", tmp_path)
    assert code == 1
    assert "leadline: benchmark tiny: theirs died: ValueError: no luck" in err
    assert not list(tmp_path.iterdir())


def test_the_list_has_the_questions(called: Called) -> None:
    assert "How long does a training step take?" in called.text("bench", "--list")
