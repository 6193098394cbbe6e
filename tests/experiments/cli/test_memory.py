"""What `leadline memory` says of studies, released models and published ones."""

from pathlib import Path

import pytest

from leadline.experiments.studies.sizes import RELEASED
from tests.experiments.called import Called
from tests.experiments.published.tiny_llama import tiny_llama
from tests.experiments.suite import suite

pytestmark = pytest.mark.usefixtures("in_use")


def test_a_released_model_is_found_by_its_name(called: Called) -> None:
    """Llama 3 8B: 8,030,261,248 parameters by its card; 2 · 32 layers · 8 heads · 128 channels · 2 bytes a token."""
    words = ("memory", "llama_3_8b", "--context", "1024,8192", "--context", "1024", "--dtype", "bfloat16", "--batch", "2")
    (model,) = called.json(*words)["models"]
    assert model["parameter_count"] == 8_030_261_248
    assert model["weight_bytes"] == 2 * 8_030_261_248
    assert [entry["context"] for entry in model["contexts"]] == [1024, 8192]
    assert [entry["cache_bytes"] for entry in model["contexts"]] == [2**17 * 2 * tokens for tokens in (1024, 8192)]
    assert [entry["score_bytes"] for entry in model["contexts"]] == [2 * 32 * 4 * tokens**2 for tokens in (1024, 8192)]
    text = called.text(*words)
    assert all(part in text for part in ("Llama 3 8B", "8,030,261,248", "15 GiB", "2 GiB", "16 GiB"))


def test_layers_with_a_window_are_shown_one_by_one(called: Called) -> None:
    lines = called.text("memory", "gemma_2_2b", "--context", "8192", "--layers").splitlines()
    rows = [line.split() for line in lines if line.startswith("Gemma 2 2B  8,192    ")]
    assert [row[4:6] for row in rows[1:3]] == [["1", "4,096"], ["2", "8,192"]]
    assert len(rows) == 1 + 26
    assert "Gemma 2 2B  8,192    1 " not in called.text("memory", "gemma_2_2b", "--context", "8192")


def test_the_arms_of_a_suite_are_counted_with_settings(called: Called, tmp_path: Path) -> None:
    config = suite(tmp_path)
    names = [model["name"] for model in called.json("memory", config)["models"]]
    assert names == ["softmax", "learned"]
    (arm,) = called.json("memory", config, "--arm", names[0], "mine.model.layers=3")["models"]
    assert (arm["name"], arm["layers"]) == (names[0], 3)
    assert not (tmp_path / "results").exists()


def test_a_published_model_is_counted_without_its_weights(called: Called, tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "tiny")
    (model,) = called.json("memory", folder)["models"]
    assert model["name"] == "tiny"
    with (folder / "model.safetensors").open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    assert model["weight_bytes"] == (folder / "model.safetensors").stat().st_size - 8 - header


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lama_3_8b",), "lama_3_8b: no such file, and no released model has this name; did you mean 'llama_3_8b'?"),
        (("llama_3_8b", "--context", "8k"), "--context 8k: numbers of tokens above 0"),
        (("llama_3_8b", "model.layers=2"), "model.layers=2: settings and arms are those of a study; name its TOML file"),
        ((RELEASED, "--arm", "llama_3_8"), "no arm is called 'llama_3_8'; did you mean 'llama_3_8b'?"),
        ((RELEASED.resolve().with_name("tokens.toml"),), "it has no models of its own: name a study that trains some"),
        ((RELEASED.resolve().with_name("transformer.toml"),), "arm 'base' has an encoder, and only decoders are counted"),
        (("none.toml",), "none.toml: there is no such file"),
        (("llama_3_8b", "--dtype", "float12"), "'float12' is not one of"),
        (("llama_3_8b", "--batch", "0"), "Invalid value for '--batch'"),
    ],
)
def test_what_cannot_be_counted_is_said(called: Called, words: tuple[str, ...], message: str) -> None:
    assert message in called.mistake("memory", *words)
