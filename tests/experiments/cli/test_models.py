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
    """One after the other, as it writes each by itself."""
    (tmp_path / "prompts").write_text("lead line\n\nab\n")
    words = ("generate", folder, "--tokens", "20", "--temperature", "0")
    result = called.json(*words, "--prompt", "one", "--prompts", tmp_path / "prompts")
    texts = {entry["prompt"]: entry["text"] for entry in result["texts"]}
    assert list(texts) == ["one", "lead line", "ab"]
    shown = [f"{number}: {prompt}\n\n{text}\n" for number, (prompt, text) in enumerate(texts.items(), start=1)]
    assert called.text(*words, "--prompt", "one", "--prompts", tmp_path / "prompts") == "\n".join(shown)
    assert called.text(*words, "--prompt", "ab") == texts["ab"] + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; check the path"),
        (b"ab\nc\xff", "not UTF-8 at byte 4; convert it to UTF-8"),
    ],
)
def test_a_file_of_prompts_that_cannot_be_read_is_named(
    called: Called, folder: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "prompts"
    if content is not None:
        path.write_bytes(content)
    assert called.mistake("generate", folder, "--prompts", path) == f"leadline: --prompts: {path}: {message}\n"


def test_a_folder_of_prompts_is_refused(called: Called, folder: Path) -> None:
    assert f"--prompts: {folder}: cannot be read" in called.mistake("generate", folder, "--prompts", folder)


@pytest.mark.parametrize("share", ["0", "-1", "1.5", "nan"])
def test_a_share_that_is_none_is_refused_before_the_model_is_opened(called: Called, share: str) -> None:
    assert "is not in the range 0 < P <= 1" in called.mistake("generate", "no-such-model", "--prompt", "a", "--top-p", share)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there is no prompt: give --prompt TEXT, or --prompts FILE"),
        (("--prompt", "a", "--beams", "2"), "--beams: Tiny has no encoder, and beams are those of an encoder–decoder"),
        (("--prompt", "a", "--initial-tokens", "2"), "--window, --initial-tokens: 2 initial tokens"),
        (("--prompt", "a", "--prompt", "bc", "--window", "4", "--initial-tokens", "2"), "must have equally many tokens"),
    ],
)
def test_what_cannot_be_written_is_said(called: Called, folder: Path, words: tuple[str, ...], message: str) -> None:
    assert message in called.mistake("generate", folder, *words)
