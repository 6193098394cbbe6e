"""The command line: exit codes, one line an error, one JSON object, nothing written by mistake."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import pytest

from experiments import cli
from tests.experiments.studies.test_run import SINKS, suite

ROOT = Path(__file__).parents[2]
LEADLINE = (sys.executable, "-c", "from experiments.cli import main; main()")
TIMEOUT = 120


def _quick() -> dict[str, str]:
    """Of a process whose programs need not be fast, as in `quick_to_compile`, and are kept where the tests keep theirs."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    return os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_COMPILATION_CACHE_DIR": folder}


def _leadline(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user calls it."""
    command = [*LEADLINE, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=_quick(), capture_output=True, text=True, timeout=TIMEOUT, check=False)


class _Called:
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

    def json(self, *words: str | Path) -> dict[str, Any]:
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> _Called:
    return _Called(monkeypatch, capsys)


def test_help_is_light() -> None:
    script = (
        "import sys; from experiments.cli import main\n"
        "sys.argv = ['leadline', '--help']\n"
        "try: main()\n"
        "except SystemExit as found: code = found.code\n"
        "heavy = {'jax', 'numpy', 'matplotlib', 'pydantic', 'optax'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("run", "report", "claims", "bound", "doctor", "generate"):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("sinks.model.widht=3", "sinks.toml: model.widht: unknown key; did you mean 'width'?"),
        ("sinks.model.head_dim=3", "head dimension 3 is odd"),
        ("sinks.model.heads=3", "width 8 does not divide into 3 heads"),
        ("extrapolation.data.length=100000", "data.length = 100000"),
        ("steps=3", "in a suite a key begins with its study"),
    ],
)
def test_mistakes_in_the_configuration(called: _Called, tmp_path: Path, word: str, part: str) -> None:
    config = suite(tmp_path)
    results = tmp_path / "results"
    # Without the first study, so that nothing is trained before the mistake is found.
    target = (
        (config, word) if word.startswith(("sinks", "steps")) else (tmp_path / "extrapolation.toml", word.partition(".")[2])
    )
    assert part in called.mistake("run", *target, "--results", results)
    assert not results.exists()


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "is empty"), (b"good text, then \xff", "not UTF-8 at byte 16 (0xff)"), (None, "no such file")]
)
def test_mistakes_in_the_corpus(called: _Called, tmp_path: Path, content: bytes | None, part: str) -> None:
    suite(tmp_path)
    corpus = tmp_path / "corpus.txt"
    if content is not None:
        corpus.write_bytes(content)
    words = ("run", tmp_path / "extrapolation.toml", f"data.corpus=['{corpus}']", "--results", tmp_path / "results")
    line = called.mistake(*words)
    assert str(corpus) in line
    assert part in line
    assert not (tmp_path / "results").exists()


def test_mistakes_with_folders(called: _Called, tmp_path: Path) -> None:
    config = suite(tmp_path)
    file = tmp_path / "file"
    file.write_text("mine")
    assert "cannot write results" in called.mistake("run", config, "--results", file / "results")
    assert file.read_text() == "mine"
    for command in ("report", "claims"):
        assert "there is no such results folder" in called.mistake(command, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_record_of_a_newer_schema(called: _Called, synthetic: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(synthetic, results)
    path = next(results.glob("*/*/s*/record.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    for command in (("report",), ("claims",), ("run", suite(tmp_path), "--results")):
        line = called.mistake(*command, results)
        assert str(path) in line
        assert "schema version 99 is newer than" in line
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("walk",),
        ("run", "a.toml", "--fast"),
        ("bound", "--head-dim", "x", "--length", "3"),
        ("bound", "--length", "3"),
    ],
)
def test_mistakes_in_the_words(called: _Called, words: tuple[str, ...]) -> None:
    called.mistake(*words)


def test_without_words_there_is_help(called: _Called) -> None:
    code, out, err = called()
    assert "Usage" in out + err
    assert code in (0, 2)


def test_bound(called: _Called) -> None:
    found = called.json("bound", "--head-dim", "128", "--length", "1024")
    assert {"infimum", "largest_infeasible", "islands", "published"} <= set(found)
    assert 0 < found["infimum"] <= found["largest_infeasible"]
    assert all(len(pair) == 2 for pair in found["islands"])
    code, out, _ = called("bound", "--head-dim", "128", "--length", "1024")
    assert code == 0
    assert f"{found['infimum']:.8g}" in out
    assert "head dim must be even" in called.mistake("bound", "--head-dim", "3", "--length", "8")
    assert "every must be at least 1" in called.mistake("bound", "--head-dim", "4", "--length", "8", "--every", "0")


def test_bound_of_another_convention(called: _Called) -> None:
    """What holds at every distance up to N holds below N, and what holds there holds at every eighth distance."""
    bases = [
        called.json("bound", "--head-dim", "32", "--length", "128", *words)["infimum"]
        for words in (("--inclusive",), (), ("--every", "8"))
    ]
    assert bases == sorted(bases, reverse=True)
    assert bases[1] > bases[2]


def test_report_and_claims_of_records(called: _Called, synthetic: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(synthetic, results)
    found = called.json("report", results)
    assert Path(found["page"]).is_file()
    assert found["tables"]
    assert all(Path(path).is_file() for path in found["tables"] + found["figures"])
    judged = called.json("claims", results)["claims"]
    assert {"id", "statement", "published", "measured", "verdict"} <= set(judged[0])
    assert len(judged) >= 8
    for study in ("extrapolation", "encodings", "rope_base"):  # one study is enough for what is printed
        shutil.rmtree(results / study)
    for command in ("report", "claims"):
        code, out, err = called(command, results)
        assert (code, err) == (0, "")
        assert out


def test_dry_run_trains_nothing(called: _Called, tmp_path: Path) -> None:
    config = suite(tmp_path)
    rows = called.json("run", config, "--dry-run", "--results", tmp_path / "results")["arms"]
    assert [row["arm"] for row in rows] == ["softmax", "headwise_gate", "rope", "alibi", "d128-64", "d128-1k", "men-table-4"]
    assert all(row["parameters"] > 0 and row["flops"] > 0 for row in rows if row["program"])
    code, out, _ = called("run", config, "--dry-run", "--results", tmp_path / "results")
    assert code == 0
    assert "headwise_gate" in out
    assert not (tmp_path / "results").exists()


def test_doctor() -> None:
    done = _leadline("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert {"python", "leadline", "jax"} <= set(found["versions"])
    assert found["device"]["count"] >= 1
    assert found["programs"] == jax.config.values["jax_compilation_cache_dir"]
    shown = _leadline("doctor")
    assert shown.returncode == 0
    assert found["versions"]["jax"] in shown.stdout


def _sinks(folder: Path, **changes: str) -> Path:
    text = SINKS.replace("[arms.headwise_gate]\n", "").replace('model.gate = { kind = "output", per = "head" }\n', "")
    for old, new in changes.items():
        text = text.replace(f"{old} = 4", f"{old} = {new}")
    path = folder / "sinks.toml"
    path.write_text(text)
    return path


def test_a_run_prints_one_object(tmp_path: Path) -> None:
    config, results = _sinks(tmp_path), tmp_path / "results"
    first = _leadline("run", config, "--results", results, "--json")
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert {"results", "page", "seconds", "programs", "studies", "claims"} <= set(found)
    assert (found["results"], found["page"]) == (str(results), str(results / "index.html"))
    assert (found["programs"], found["trained"], found["found"]) == (3, 2, 0)
    assert set(found["studies"]["sinks"]["softmax"]["loss"]) == {"mean", "std", "n", "unit"}
    assert {"id", "statement", "published", "measured", "verdict"} <= set(found["claims"][0])
    again = _leadline("run", config, "--results", results)
    assert again.returncode == 0
    assert "0 models trained, 2 records found, 0 programs compiled" in again.stdout
    assert again.stdout.rstrip().endswith(f"page: {results / 'index.html'}")


def test_an_interrupt_keeps_the_last_step_and_says_how_to_go_on(tmp_path: Path) -> None:
    config, results = _sinks(tmp_path, steps="1000000"), tmp_path / "results"
    words = [*LEADLINE, "run", str(config), "--results", str(results), "train.checkpoint_every=20"]
    with subprocess.Popen(words, cwd=ROOT, env=_quick(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + TIMEOUT
            while not list(results.glob("sinks/*/s*/checkpoint/manifest-*.json")):  # training has begun
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out == ""
    line = err.splitlines()[-1]
    assert line.startswith("leadline: sinks: stopped at step ")
    assert line.endswith("of 1000000, which is kept; to go on, run the same command again")
    step = int(line.split("step ")[1].split()[0])
    assert len(list(results.glob(f"sinks/*/s*/checkpoint/manifest-{step}.json"))) == 2
    assert not list(results.rglob("record.json"))


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
