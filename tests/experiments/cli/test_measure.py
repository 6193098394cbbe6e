"""What `leadline measure` says of published models."""

from pathlib import Path

import pytest

from tests.experiments.called import Called
from tests.experiments.published.tiny_llama import tiny_llama

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("published") / "tiny")


def test_tables_have_titles_and_the_last_line_says_where_they_are_recorded(
    called: Called, model: Path, corpus: Path, tmp_path: Path
) -> None:
    words = ("measure", model, "measure.inputs.sequences=2", "--corpus", corpus, "--results", tmp_path)
    code, text, _ = called(*words, "--only", "inputs,base_bound")
    assert code == 0
    assert text.startswith("Attention sinks of tiny by input, 64 tokens\ninput ")
    assert "\nThe bound of Men et al. for the RoPE base of tiny at its context\n" in text
    place = tmp_path / f"measured_tiny_on_{corpus.name}"
    counts = "{} on record before; leadline report {} makes the page"
    assert text.splitlines()[-1] == f"{place}: 2 tables computed, {counts.format(0, tmp_path)}"
    text = called.text(*words, "--only", "inputs")
    assert text.splitlines()[-1] == f"{place}: 0 tables computed, {counts.format(1, tmp_path)}"
    entries = called.json(*words, "--only", "inputs")["measurements"]
    assert "sink_rate" in {entry["quantity"] for entry in entries}
    assert not any("layer" in entry["dims"] for entry in entries)


def test_the_page_has_the_tables_of_all_that_was_measured_and_the_command(
    called: Called,
    model: Path,
    corpus: Path,
    tmp_path: Path,
    unrendered: None,  # noqa: ARG001
) -> None:
    words = ("measure", model, "--corpus", corpus, "--results", tmp_path, "--only")
    for only in (("base_bound",), ("inputs", "measure.inputs.sequences=2")):
        assert called(*words, *only)[0] == 0
    called.text("report", tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for part in (
        "The bound of Men et al. for the RoPE base of tiny",
        "Attention sinks of tiny by input",
        "first token mass (fraction), no BOS, natural text",
    ):
        assert part in page
    said = f"leadline measure tiny measure.inputs.sequences=2 --only inputs --corpus {corpus.name}</code>"
    assert said in page and "configs/measured" not in page
    assert "layer 1" not in page
    assert called(*words, "base_bound")[0] == 0
    called.text("report", tmp_path)
    assert page.count("leadline measure") == (tmp_path / "index.html").read_text(encoding="utf-8").count("leadline measure")


@pytest.mark.parametrize("name", ["model.safetensors", "README.md", "smollm2", "folder", "folder_with_gguf"])
def test_what_is_no_model_is_said_as_generate_says_it(called: Called, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder_with_gguf").mkdir()
    for file in ("model.safetensors", "README.md", "folder_with_gguf/a.gguf"):
        (tmp_path / file).touch()
    said = called.mistake("measure", tmp_path / name)
    assert said == called.mistake("generate", tmp_path / name, "--prompt", "a")


@pytest.mark.parametrize("lengths", ["0", "16,", "x", "-4", "16,0", "2147483648", "9" * 26, "9" * 5000])
def test_lengths_are_numbers_above_0(called: Called, model: Path, lengths: str) -> None:
    assert "numbers of tokens above 0, at most 2147483647, with" in called.mistake("measure", model, f"--lengths={lengths}")
