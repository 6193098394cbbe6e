"""Text of models, as the command line writes it."""

from pathlib import Path

import pytest

from tests.experiments.called import Called
from tests.experiments.published.tiny_llama import tiny_llama

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("published") / "Tiny")


def test_a_published_model_writes_the_texts_of_several_prompts(called: Called, folder: Path, tmp_path: Path) -> None:
    """One behind the other, as it writes each by itself."""
    (tmp_path / "prompts").write_text("lead line\n\nab\n")
    words = ("generate", folder, "--tokens", "20", "--temperature", "0")
    result = called.json(*words, "--prompt", "one", "--prompts", tmp_path / "prompts")
    texts = {entry["prompt"]: entry["text"] for entry in result["texts"]}
    assert list(texts) == ["one", "lead line", "ab"]
    shown = [f"{number}: {prompt}\n\n{text}\n" for number, (prompt, text) in enumerate(texts.items(), start=1)]
    assert called.text(*words, "--prompt", "one", "--prompts", tmp_path / "prompts") == "\n".join(shown)
    assert called.text(*words, "--prompt", "ab") == texts["ab"] + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there is no prompt: give --prompt TEXT, or --prompts FILE"),
        (("--prompt", "a", "--initial-tokens", "2"), "--window, --initial-tokens: 2 initial tokens"),
        (("--prompt", "a", "--prompt", "bc", "--window", "4", "--initial-tokens", "2"), "must have equally many tokens"),
    ],
)
def test_what_cannot_be_written_is_said(called: Called, folder: Path, words: tuple[str, ...], message: str) -> None:
    assert message in called.mistake("generate", folder, *words)
