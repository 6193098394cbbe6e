"""Models written as folders, and read again."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open

from leadline.experiments.config.data import TextData
from leadline.experiments.config.study import Arm
from leadline.experiments.published.architectures.registry import ARCHITECTURES
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.write import write_weights
from leadline.experiments.runs.export import Exported, export
from leadline.experiments.runs.loaded import load
from leadline.experiments.runtime.errors import UserError
from tests.experiments.called import Called
from tests.experiments.published.tiny import tiny_gguf
from tests.experiments.published.tiny_llama import tiny_llama
from tests.experiments.training.runs import LENGTH, SOFTMAX, changed, run

pytestmark = pytest.mark.usefixtures("in_use")
FILES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


def assert_same_tensors(ours: Path, theirs: Path) -> None:
    """Names, shapes, types and bits."""
    written, expected = open_checkpoint(str(ours)), open_checkpoint(str(theirs))
    assert dict(written.entries) == dict(expected.entries)
    for name in written.entries:
        assert written.read(name).tobytes() == expected.read(name).tobytes(), name


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_published_model_is_written_as_it_was(tmp_path: Path, dtype: Any) -> None:
    folder = tiny_llama(tmp_path / "Tiny", dtype, tie_word_embeddings=False)
    assert export(str(folder), tmp_path / "copy") == Exported("llama", FILES, None)
    assert_same_tensors(tmp_path / "copy", folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    assert json.loads((tmp_path / "copy" / "config.json").read_text()) == json.loads((folder / "config.json").read_text())


def test_everyone_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    export(str(tiny_llama(tmp_path / "Tiny")), tmp_path / "copy")
    assert len({path.stat().st_mode for path in (tmp_path / "copy").iterdir()}) == 1


def test_numbers_are_rounded_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    export(str(folder), tmp_path / "rounded", "bfloat16")
    export(str(tiny_llama(tmp_path / "other", ml_dtypes.bfloat16)), tmp_path / "expected")
    assert_same_tensors(tmp_path / "rounded", tmp_path / "expected")
    assert json.loads((tmp_path / "rounded" / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_a_gguf_file_becomes_a_folder(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "Tiny.gguf")
    assert export(str(path), tmp_path / "folder") == Exported("llama", FILES, None)
    ours, theirs = load(tmp_path / "folder"), load(path)
    np.testing.assert_array_equal(ours.logits([2, 3, 4]), theirs.logits([2, 3, 4]))
    assert ours.tokenizer is not None and theirs.tokenizer is not None
    assert ours.encode("ab a").tolist() == theirs.encode("ab a").tolist()
    assert ours.tokenizer.specials == theirs.tokenizer.specials


def test_large_models_have_several_files(tmp_path: Path) -> None:
    """Of at most three tensors of layers here; the embedding is larger than a file may be."""
    folder = tiny_llama(tmp_path / "Tiny")
    model = load(folder)
    rows = ARCHITECTURES["llama"].rows(model.configuration)
    (tmp_path / "sharded").mkdir()
    write_weights(tmp_path / "sharded", model.weights, rows, lambda _: np.dtype(np.float32), largest=20_000)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "sharded" / name).write_bytes((folder / name).read_bytes())
    assert len(list((tmp_path / "sharded").glob("model-*-of-*.safetensors"))) > 3
    assert_same_tensors(tmp_path / "sharded", folder)


def text_arm(corpus: Path) -> Arm:
    data = TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3, bos="fixed")
    return changed("text", model={"feedforward": "swiglu"}).model_copy(update={"data": data})


@pytest.fixture(scope="module")
def results(in_use: None, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """A model of text that the Llama family can express, and a task whose model it cannot."""
    results = tmp_path_factory.mktemp("export") / "results"
    run(results, [text_arm(corpus)], (0,))
    run(results, [SOFTMAX], (0,))
    return results


def folder_of(results: Path, arm: str) -> Path:
    (folder,) = results.glob(f"*/{arm}-*/s0")
    return folder


def test_a_run_becomes_a_published_model(results: Path, tmp_path: Path) -> None:
    source = folder_of(results, "text")
    assert export(str(source), tmp_path / "llama") == Exported("llama", FILES, None)
    run, published = load(source), load(tmp_path / "llama")
    ids = run.encode("Document 7")
    assert published.encode("Document 7").tolist() == ids.tolist()
    assert ids[0] == 257
    np.testing.assert_allclose(published.logits(ids), run.logits(ids), rtol=1e-5, atol=1e-6)
    with safe_open(tmp_path / "llama" / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}


def test_a_model_without_words_elsewhere_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="softmax: transformers has no model with feedforward = relu that leadline writes"):
        export(str(folder_of(results, "softmax")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_files_are_not_mixed_with_others(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    with pytest.raises(UserError, match="there is something already; name a new folder"):
        export(str(folder), folder)


def test_the_command_names_the_files(called: Called, tmp_path: Path) -> None:
    words = ("export", tiny_llama(tmp_path / "Tiny"), "--into")
    assert called.text(*words, tmp_path / "a").split() == [str(tmp_path / "a" / name) for name in FILES]
    assert called.json(*words, tmp_path / "b") == {
        "folder": str(tmp_path / "b"),
        "model_type": "llama",
        "files": FILES,
        "without_tokenizer": None,
    }


def test_a_folder_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    (folder / "tokenizer.json").unlink()
    assert export(str(folder), tmp_path / "copy").without_tokenizer == "the model has none"
