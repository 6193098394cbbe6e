"""What is exported, as transformers loads it: equal logits, equal ids."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.runs.export import export, export_run
from leadline.experiments.runs.forward import applied
from leadline.experiments.training.saved import TrainedModel
from leadline.model.decoder import init_decoder
from leadline.model.mesh import make_mesh
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from tests.experiments.published.test_config_json import LENGTH, MODELS, ORIGINAL, model_of
from tests.experiments.published.tiny_llama import tiny_llama
from tests.model.weights import drawn

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("quick_to_compile")]
TEXTS = ["low lower lowest, newest and widest: 1234 anchors <b>\n" * 3, "été, \t x"]
TOKENS = 48
ROUNDING = 1e-5  # of the largest logit


def trained(changes: dict[str, Any], tokenizer: Tokenizer | None = None, *, add_bos: bool = False) -> TrainedModel:
    """A model with random weights."""
    model = model_of(changes)
    cfg = decoder_config(model, 29 if tokenizer is None else tokenizer.vocabulary_size, LENGTH)
    with jax.set_mesh(make_mesh()):
        params = drawn(lambda: init_decoder(jax.random.key(0), cfg), uneven=0.3)
    return TrainedModel("mine", model, LENGTH, ORIGINAL, add_bos, cfg, params, tokenizer)


@pytest.mark.parametrize("what", MODELS)
def test_logits_are_equal(what: str, tmp_path: Path) -> None:
    ours = trained(MODELS[what][1])
    ids = np.random.default_rng(0).integers(0, ours.cfg.vocabulary, (2, TOKENS), np.int32)
    export_run(ours, tmp_path / "folder", "float32")
    theirs, report = AutoModelForCausalLM.from_pretrained(tmp_path / "folder", output_loading_info=True)
    assert not any(report.values()), report
    expected = theirs.double()(torch.from_numpy(ids).long()).logits.detach().numpy()
    logits, _ = applied(ours, ids)
    assert np.abs(logits - expected).max() < ROUNDING * np.abs(expected).max()


TOKENIZERS = {
    "byte": ByteTokenizer(),
    "bpe": train_bpe(TEXTS, 280, pattern="gpt2"),
    "unigram": train_unigram(TEXTS, 60),
}


@pytest.mark.parametrize("add_bos", [False, True])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_are_equal(name: str, add_bos: bool, tmp_path: Path) -> None:
    tokenizer = TOKENIZERS[name]
    if add_bos and tokenizer.specials.bos is None:
        pytest.skip("this tokenizer has no BOS")
    export_run(trained({}, tokenizer, add_bos=add_bos), tmp_path / "folder", "float32")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "folder")
    for text in TEXTS:
        ids = tokenizer.encode(text).tolist()
        assert theirs(text).input_ids == ([tokenizer.specials.bos, *ids] if add_bos else ids)
    assert (theirs.bos_token_id, theirs.eos_token_id) == (tokenizer.specials.bos, tokenizer.specials.eos)


def test_a_published_model_stays_the_same_model(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    export(str(folder), tmp_path / "copy")
    ids = torch.arange(20)[None]
    one, other = (AutoModelForCausalLM.from_pretrained(path)(ids).logits for path in (folder, tmp_path / "copy"))
    assert torch.equal(one, other)
