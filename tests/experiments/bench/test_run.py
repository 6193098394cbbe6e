"""Benchmarks by name, their contestants, and a run from the command line to its files."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from leadline.experiments.bench import run
from leadline.experiments.bench.contest import Benchmark, Case, Contestant
from leadline.experiments.bench.run import benchmarks, chosen
from leadline.experiments.cli import main as cli
from leadline.experiments.runtime.errors import UserError

HERE = "tests.experiments.bench.contestants"


def _tiny(entry: str) -> Benchmark:
    ours, theirs = Contestant("ours", f"{HERE}:counts", {"value": 1.0}), Contestant("theirs", f"{HERE}:{entry}", {})
    return Benchmark("tiny", "How long?", (Case("a case", (ours, theirs), targets={"theirs": 1e9}),), ("a note",))


def _called(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["leadline", "bench", *words])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


CASES = [case for benchmark in benchmarks() for case in benchmark.cases]


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
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
        parameters = {argument.arg for argument in definition.args.args}
        required = {argument.arg for argument in definition.args.args[: len(parameters) - len(definition.args.defaults)]}
        assert required <= set(contestant.settings) <= parameters


def test_names_choose() -> None:
    expected = "step attention mechanisms sweep evaluation sinks decode tokenization compile startup pipeline"
    assert [benchmark.name for benchmark in chosen([])] == expected.split()
    assert [benchmark.name for benchmark in chosen(["sweep", "step", "sweep"])] == ["sweep", "step"]
    with pytest.raises(UserError, match="did you mean 'startup'"):
        chosen(["start-up"])
    with pytest.raises(UserError, match="valid here: step"):
        chosen(["xyz"])


@pytest.mark.parametrize(("accelerator", "titles"), [(None, ["any", "cpu"]), ("1 x NVIDIA H200", ["any", "accelerator"])])
def test_a_case_runs_where_it_is_for(accelerator: str | None, titles: list[str]) -> None:
    contestants = (Contestant("ours", f"{HERE}:counts", {}),)
    cases = tuple(Case(where or "any", contestants, where=where) for where in (None, "cpu", "accelerator"))
    about = {"machine": {"accelerator": accelerator, "device_kind": "a device"}}
    content = run.measured(Benchmark("some", "Which?", cases), 1, about, lambda _: None, lambda _: None)
    assert [case["title"] for case in content["cases"]] == titles


def test_from_the_command_line_to_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny("absent"),))
    assert _called(monkeypatch, "tiny", "--rounds", "1", "--results", str(tmp_path), "--json") == 0
    out, err = capsys.readouterr()
    (content,) = json.loads(out)["benchmarks"]
    assert err == ""
    assert json.loads((tmp_path / "tiny.json").read_text()) == content
    machine = content["machine"]
    assert machine["cpu"] and machine["cores"] >= 1 and (machine["memory_gib"] or 1) > 0
    assert {"python", "jax", "tokenizers"} <= set(content["versions"])
    assert len(content["cases"][0]["contestants"][0]["rounds"]) == 1
    assert "is not installed" in (tmp_path / "bench.md").read_text(encoding="utf-8")


def test_a_contestant_that_dies_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "benchmarks", lambda: (_tiny("dies"),))
    assert _called(monkeypatch, "--rounds", "1", "--results", str(tmp_path)) == 1
    assert "leadline: benchmark tiny: theirs died: ValueError: no luck" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _called(monkeypatch, "--list") == 0
    assert "How long does a training step take?" in capsys.readouterr().out
