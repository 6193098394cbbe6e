"""Published architectures against transformers. Those before Llama are in test_published_classic."""

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3NextConfig,
    SmolLM3Config,
)
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from leadline.experiments.published.load import load
from leadline.experiments.published.mxfp4 import values
from leadline.experiments.published.open import open_checkpoint
from leadline.model.mesh import make_mesh
from tests.oracles.parity import LENGTHS, SIZE, SIZES, Pair, Parity, cases, difference, logits, magnified, paired, texts_of

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("quick_to_compile")]
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 4.0,
    "beta_fast": 2.0,
    "beta_slow": 0.1,
    "truncate": False,
    "original_max_position_embeddings": 8,
}
BY_KIND = {
    "sliding_attention": ROPE["rope_parameters"],
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
}

CASES: dict[str, Callable[[], PreTrainedConfig]] = {
    "Llama 2": lambda: LlamaConfig(**SIZES, **ROPE, num_hidden_layers=2, rms_norm_eps=1e-5),
    "Llama 3": lambda: LlamaConfig(**SIZES, rope_parameters=LLAMA3, num_hidden_layers=2, head_dim=SIZE, rms_norm_eps=1e-5),
    "Mistral": lambda: MistralConfig(**SIZES, **ROPE, num_hidden_layers=2, sliding_window=7),
    "SmolLM3": lambda: SmolLM3Config(**SIZES, **ROPE, num_hidden_layers=4, pad_token_id=None),
    "Qwen2": lambda: Qwen2Config(**SIZES, **ROPE, num_hidden_layers=2, tie_word_embeddings=True),
    "Qwen2 windows": lambda: Qwen2Config(
        **SIZES, **ROPE, num_hidden_layers=3, use_sliding_window=True, sliding_window=7, max_window_layers=1
    ),
    "Qwen3": lambda: Qwen3Config(**SIZES, **ROPE, num_hidden_layers=2, head_dim=16),
    "OLMo 2": lambda: Olmo2Config(**SIZES, **ROPE, num_hidden_layers=2, pad_token_id=None),
    "Gemma 2": lambda: Gemma2Config(
        **SIZES, **ROPE, num_hidden_layers=2, head_dim=16, query_pre_attn_scalar=9, sliding_window=7, pad_token_id=None
    ),
    "Gemma 3": lambda: Gemma3TextConfig(
        **SIZES,
        rope_parameters=BY_KIND,
        num_hidden_layers=3,
        head_dim=16,
        sliding_window=7,
        pad_token_id=None,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "GPT-OSS": lambda: GptOssConfig(
        **SIZES,
        rope_parameters=YARN,
        num_hidden_layers=2,
        head_dim=16,
        num_local_experts=5,
        num_experts_per_tok=2,
        sliding_window=7,
    ),
    "Qwen3-Next": lambda: Qwen3NextConfig(
        **SIZES,
        **ROPE,
        partial_rotary_factor=0.25,
        num_hidden_layers=2,
        head_dim=16,
        num_experts=0,
        layer_types=["full_attention", "full_attention"],
    ),
}


@pytest.fixture(scope="module", params=cases(CASES, slow=("Llama 2", "Qwen2")))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    yield from paired(CASES[request.param](), tmp_path_factory.mktemp("model"))


class TestPublished(Parity):
    pass


def test_dequantised_experts_of_gpt_oss() -> None:
    rng = np.random.default_rng(0)
    blocks, scales = rng.integers(0, 256, (3, 8, 4, 16), np.uint8), rng.integers(100, 150, (3, 8, 4), np.uint8)
    theirs = convert_moe_packed_tensors(torch.from_numpy(blocks), torch.from_numpy(scales), dtype=torch.float32)
    np.testing.assert_array_equal(values(blocks, scales).astype(np.float32), theirs.numpy())


@pytest.mark.parametrize("name", ["Llama 3", pytest.param("Gemma 3", marks=pytest.mark.slow)])
def test_bfloat16_is_near(name: str, tmp_path: Path) -> None:
    """Rounded to 8 bits of mantissa, in every product of layers of large weights."""
    magnified(CASES[name]()).save_pretrained(tmp_path)
    checkpoint, length = open_checkpoint(str(tmp_path)), LENGTHS[0]
    with jax.set_mesh(make_mesh()):
        exact, rounded = (logits(load(checkpoint, compute), texts_of(length)) for compute in ("float32", "bfloat16"))
    assert np.isfinite(rounded).all()
    assert 1e-4 < difference(rounded, exact) < 0.15
