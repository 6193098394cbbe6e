"""The command line: exit codes, one line an error, one JSON object, nothing written by mistake."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.cli import main as cli
from tests.experiments.suite import Run, suite

pytestmark = pytest.mark.usefixtures("in_use")


class Called:
    """The command line in this process, whose devices are made already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(cli, "_begin_jax", lambda: None)

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._monkeypatch.setattr(sys, "argv", ["leadline", *map(str, words)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = self._capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    def mistake(self, *words: str | Path) -> str:
        """The one line that a mistake of the user gives."""
        code, out, err = self(*words)
        assert (code, out) == (2, "")
        assert err.startswith("leadline: ")
        assert err.count("\n") == 1
        return err

    def text(self, *words: str | Path) -> str:
        code, out, err = self(*words)
        assert (code, err) == (0, "")
        return out

    def json(self, *words: str | Path) -> dict[str, Any]:
        return json.loads(self.text(*words, "--json"))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(monkeypatch, capsys)


@pytest.fixture
def results(recorded: Run, tmp_path: Path) -> Path:
    """A copy of the results, without weights."""
    return shutil.copytree(recorded.results, tmp_path / "results", ignore=shutil.ignore_patterns("checkpoint"))


def test_mistakes_in_the_configuration(called: Called, tmp_path: Path) -> None:
    line = called.mistake("run", suite(tmp_path), "mine.model.widht=3", "--results", tmp_path / "results")
    assert "mine.toml: model.widht: unknown key; did you mean 'width'?" in line
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "is empty"), (b"good text, then \xff", "not UTF-8 at byte 16 (0xff)"), (None, "no such file")]
)
def test_mistakes_in_the_corpus(called: Called, tmp_path: Path, content: bytes | None, part: str) -> None:
    config, corpus = suite(tmp_path).with_name("text.toml"), tmp_path / "corpus.txt"
    if content is not None:
        corpus.write_bytes(content)
    line = called.mistake("run", config, f"data.corpus=['{corpus}']", "--results", tmp_path / "results")
    assert str(corpus) in line
    assert part in line
    assert not list(tmp_path.rglob("manifest-*"))


def test_mistakes_with_folders(called: Called, tmp_path: Path) -> None:
    config = suite(tmp_path)
    assert "cannot write results" in called.mistake("run", config, "--results", config / "results")
    for command in ("report", "claims", "publish"):
        assert "there is no such results folder" in called.mistake(command, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("words", ["run", "walk", "run a.toml --fast", "bound --head-dim x --length 3", "bound --length 3"])
def test_mistakes_in_the_words(called: Called, words: str) -> None:
    called.mistake(*words.split())


def test_bound(called: Called) -> None:
    words = ("bound", "--head-dim", "128", "--length", "256")
    report = called.json(*words)
    assert {"infimum", "largest_infeasible", "islands", "published"} <= set(report)
    assert 0 < report["infimum"] <= report["largest_infeasible"]
    assert all(len(pair) == 2 for pair in report["islands"])
    assert f"{report['infimum']:.8g}" in called.text(*words)
    # What holds at every distance up to N holds below N, and what holds there holds at every eighth distance.
    inclusive, eighth = (called.json(*words, *more)["infimum"] for more in (("--inclusive",), ("--every", "8")))
    assert inclusive >= report["infimum"] > eighth
    assert "head dim must be even" in called.mistake("bound", "--head-dim", "3", "--length", "8")
    assert "every must be at least 1" in called.mistake("bound", "--head-dim", "4", "--length", "8", "--every", "0")


def test_report_and_claims_of_records(called: Called, results: Path) -> None:
    published = called.json("report", results)
    assert Path(published["page"]).is_file()
    assert published["tables"] and all(Path(path).is_file() for path in published["tables"] + published["figures"])
    claims = called.json("claims", results)["claims"]
    assert {claim["id"]: claim["outcome"] for claim in claims} == {"mine-loss": "holds", "mine-sigmoid": "not measured"}
    assert {"statement", "published", "measured", "reason", "n", "interval", "scale"} <= set(claims[0])
    assert "mine-loss" in called.text("claims", results)


def test_what_is_left_out_is_said(called: Called, results: Path) -> None:
    path = next(results.glob("mine/learned-*/s1/record.json"))
    path.write_bytes(path.read_bytes()[:-9])
    for words in (("report", results), ("claims", results, "--json")):
        code, out, err = called(*words)
        assert (code, err.count("\n")) == (0, 1)
        assert (f"page: {results / 'index.html'}" if words[0] == "report" else '{"claims": ') in out
        assert err.startswith(f"leadline: left out: {path}: ")
        assert err.endswith(f"; delete {path.parent} and run the study again\n")


def test_publish_packs_records_and_fills_a_text(called: Called, results: Path, tmp_path: Path) -> None:
    text, into = tmp_path / "README.md", tmp_path / "published"
    text.write_text("<!-- leadline table mine -->\n<!-- leadline end -->\n", encoding="utf-8")
    words = ("publish", results, "--into", into, "--text", text)
    exported = called.json(*words)
    assert (exported["studies"], exported["notes"]) == (["bases", "mine", "text"], [])
    assert exported["files"] == len([path for path in into.rglob("*") if path.is_file()])
    assert "learned sink logit" in text.read_text(encoding="utf-8")
    assert called.json("claims", into) == called.json("claims", results)
    assert "bases, mine, text: " in called.text(*words)


def test_a_run_of_what_is_on_record(called: Called, recorded: Run, results: Path) -> None:
    words = ("run", recorded.config, "--results", results)
    page, times = (
        (results / "index.html").read_bytes(),
        {path: path.stat().st_mtime_ns for path in results.rglob("record.json")},
    )
    ran = called.json(*words)
    assert (results / "index.html").read_bytes() == page
    assert {path: path.stat().st_mtime_ns for path in results.rglob("record.json")} == times
    assert ran["studies"] == recorded.outcome.published.summary
    assert (ran["results"], ran["page"]) == (str(results), str(results / "index.html"))
    assert (ran["programs"], ran["trained"], ran["recorded"]) == (0, 0, 8)
    assert set(ran["studies"][0]) == {"study", "arm", "quantity", "dims", "unit", "mean", "std", "n"}
    assert [claim["id"] for claim in ran["claims"]] == ["mine-loss", "mine-sigmoid"]
    out = called(*words)[1]
    assert out.index("Losses of my own") < out.index("Bounds") < out.index("mine-loss")
    assert "0 models trained, 8 on record before, 0 programs compiled" in out
    assert out.rstrip().endswith(f"page: {results / 'index.html'}")


def test_dry_run_trains_nothing(called: Called, tmp_path: Path) -> None:
    words = ("run", suite(tmp_path), "--dry-run", "--results", tmp_path / "results")
    rows = called.json(*words)["arms"]
    assert [row["study"] for row in rows] == ["mine"] * 2 + ["text"] * 2 + ["bases"] * 2
    assert "learned" in called.text(*words)
    assert not (tmp_path / "results").exists()


def test_generate_writes_text_with_a_trained_model(called: Called, recorded: Run) -> None:
    [rope] = recorded.results.glob("text/rope-*/s0")
    words = ("generate", rope, "--prompt", "Line 7 of ", "--tokens", "4", "--temperature", "0")
    written = called.json(*words)
    assert (written["prompt"], written["step"], len(written["ids"])) == ("Line 7 of ", 4, 4)
    assert called.text(*words).rstrip("\n") == written["text"].rstrip("\n")
    assert "--initial-tokens" in called.mistake(*words, "--initial-tokens", "2")
    [mine] = recorded.results.glob("mine/softmax-*/s0")
    called.mistake("generate", mine, "--prompt", "a")


def test_tokens_counts_parallel_texts(called: Called) -> None:
    rows = called.json("tokens")["texts"]
    assert len({row["language"] for row in rows}) == len(rows) > 10
    assert "Burmese" in called.text("tokens")
    assert "tlh" in called.mistake("tokens", "--reference", "tlh")


def test_a_defect_is_one_line_and_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(**_: object) -> int:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    line = capsys.readouterr().err
    assert stopped.value.code == cli.FAILURE
    assert line.startswith("leadline: RuntimeError: no such luck")
    assert line.count("\n") == 1
    [log] = tmp_path.glob("leadline-*.log")
    assert "no such luck" in log.read_text()
    assert str(log) in line
