"""Published models by their names: what a user asks of one."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.runs.loaded import load
from leadline.experiments.runs.model import Model, apply
from leadline.experiments.runtime.errors import UserError
from leadline.model.block import LayerTrace
from tests.experiments.published.tiny_llama import CONTEXT, LAYERS, VOCABULARY, tiny_llama, tiny_tensors

pytestmark = pytest.mark.usefixtures("in_use")
TEXT = "lead line"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("published") / "Tiny")


@pytest.fixture(scope="module")
def model(folder: Path, in_use: None) -> Model:  # noqa: ARG001
    return load(folder)


def test_weights_configuration_and_tokenizer_are_those_of_the_files(model: Model) -> None:
    np.testing.assert_array_equal(model.weights.embedding, tiny_tensors()["model.embed_tokens.weight"])
    assert model.configuration.norm_epsilon == 1e-5
    assert (model.structure.layers, model.vocabulary_size) == (LAYERS, VOCABULARY)
    assert model.tokenizer is not None and model.tokenizer.vocabulary_size == VOCABULARY
    assert repr(model) == f"Model Tiny: layers 2, heads 4, width 32, rope, {VOCABULARY} ids, {CONTEXT} tokens"


def test_texts_become_ids_and_ids_texts(model: Model) -> None:
    ids = model.encode(TEXT)
    assert ids.tolist() == list(TEXT.encode())
    assert model.decode([*ids.tolist(), VOCABULARY - 1]) == TEXT
    with pytest.raises(UserError, match="id 259 at position 0 is outside"):
        model.decode([VOCABULARY])


def residuals(layer: LayerTrace) -> Any:
    return layer.residual


def test_statistics_come_from_the_pass_that_gives_the_logits(model: Model) -> None:
    """The first token of every text sees itself alone, so that its residual stream does not depend on the others."""
    ids = model.encode(TEXT)
    logits, streams = apply(model, np.stack([ids, ids[::-1]]), residuals)
    assert streams.shape == (LAYERS, 2, len(ids), model.structure.block.width)
    np.testing.assert_allclose(logits[0], model.logits(ids), atol=1e-4)
    alone = apply(model, ids[:1], residuals)[1]
    np.testing.assert_allclose(streams[:, 0, 0], alone[:, 0, 0], atol=1e-4)
    assert apply(model, ids)[1] is None


def test_attention_and_its_sinks_agree(model: Model) -> None:
    ids = model.encode(TEXT)
    masses = model.sinks(ids).first_token_mass
    assert model.attention_map(ids, 1, 2)[:, 0].mean() == pytest.approx(masses[1, 2], rel=1e-4)


def test_text_goes_on(model: Model) -> None:
    text = model.generate(TEXT, 20, temperature=0.0)
    assert text and text == model.generate(TEXT, 20, temperature=0.0)


def test_matrices_may_be_rounded(model: Model, folder: Path) -> None:
    rounded = load(folder, compute="bfloat16")
    assert rounded.weights.embedding.dtype == jnp.bfloat16
    ours, theirs = rounded.logits([1, 2, 3]), model.logits([1, 2, 3])
    assert 0 < np.abs(ours - theirs).max() < 0.1 * np.abs(theirs).max()


def test_a_folder_without_a_model_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither a published model \(config.json or \*.gguf in .*\) nor a run \(record.json"):
        load(tmp_path)
    with pytest.raises(UserError, match=r"nowhere: no such file or folder; .* hub:NAME .* package:NAME"):
        load(tmp_path / "nowhere")


def test_a_model_that_begins_texts_with_bos_has_it_in_front(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"add_bos_token": True}))
    model = load(folder)
    assert model.encode("a").tolist() == [257, 97]
