"""What config.json of Llama and the models after it means, in the spellings of its time."""

from typing import Any

import pytest

from leadline.experiments.config.attention import Gate, LearnedSink
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import Llama3, PositionInterpolation, Yarn
from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.load import configured
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.architectures.llama_configs import FILES, QWEN3_NEXT
from tests.experiments.published.tiny import TENSORS

# Besides the sizes, which files state in the same words. What is not here is a default.
EXPECTED: dict[str, dict[str, Any]] = {
    "Llama 3.1 8B": {
        "position": Rope(base=5e5, scaling=Llama3(factor=8, original_length=8192)),
        "head_dim": 128,
        "norm_epsilon": 1e-5,
        "tied": False,
    },
    "SmolLM2 135M": {"position": Rope(base=1e5), "head_dim": 64, "norm_epsilon": 1e-5},
    "Mistral 7B v0.1": {"position": Rope(base=1e4), "head_dim": 128, "norm_epsilon": 1e-5, "window": 4096, "tied": False},
    "SmolLM3 3B": {"position": Rope(base=5e6, nope_every=4), "head_dim": 128, "norm_epsilon": 1e-6},
    "Qwen2.5 0.5B": {
        "position": Rope(base=1e6),
        "head_dim": 64,
        "norm_epsilon": 1e-6,
        "biases": ("query", "key", "value"),
    },
    "OLMo 2 1B": {
        "position": Rope(base=5e5),
        "head_dim": 128,
        "norm_epsilon": 1e-6,
        "norm_placement": "reordered",
        "qk_norm": True,
        "joint_qk_norm": True,
        "tied": False,
    },
    "Gemma 2 2B": {
        "position": Rope(base=1e4),
        "head_dim": 256,
        "norm_epsilon": 1e-6,
        "norm_placement": "sandwich",
        "zero_centered_norm": True,
        "feedforward": "geglu_tanh",
        "scaled_embedding": True,
        "soft_cap": 50.0,
        "final_cap": 30.0,
        "window": 4096,
        "windowed": (True, False) * 13,
    },
    "Gemma 3 1B": {
        "position": Rope(base=1e6),
        "window_position": Rope(base=1e4),
        "head_dim": 256,
        "norm_epsilon": 1e-6,
        "norm_placement": "sandwich",
        "zero_centered_norm": True,
        "feedforward": "geglu_tanh",
        "scaled_embedding": True,
        "qk_norm": True,
        "window": 512,
        "windowed": (*(*(True,) * 5, False) * 4, True, True),
    },
    "gpt-oss-20b": {
        "position": Rope(base=1.5e5, scaling=Yarn(factor=32, original_length=4096, truncate=False)),
        "head_dim": 64,
        "norm_epsilon": 1e-5,
        "feedforward": "swiglu_clamped",
        "experts": 32,
        "active_experts": 4,
        "biases": ("query", "key", "value", "output", "feedforward"),
        "sink": LearnedSink(),
        "window": 128,
        "windowed": (True, False) * 12,
        "tied": False,
    },
}


def loaded(config: dict[str, Any]) -> tuple[ModelConfig, int]:
    return configured(Checkpoint("tiny", config, TENSORS, None, (), lambda name: pytest.fail(f"{name} was read")))[1:]


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_a_real_model(name: str) -> None:
    file = FILES[name]
    expected = ModelConfig(
        layers=file["num_hidden_layers"],
        width=file["hidden_size"],
        heads=file["num_attention_heads"],
        kv_heads=file["num_key_value_heads"],
        hidden=file["intermediate_size"],
        **EXPECTED[name],
    )
    assert loaded(file) == (expected, file["max_position_embeddings"])


def changed(name: str, **changes: Any) -> dict[str, Any]:
    """A file with other values; without those that are None."""
    return {key: value for key, value in {**FILES[name], **changes}.items() if value is not None}


def test_qwen2_with_windows_in_its_last_layers() -> None:
    model, _ = loaded(changed("Qwen2.5 0.5B", use_sliding_window=True, max_window_layers=20))
    assert (model.window, model.windowed) == (32768, (*(False,) * 20, *(True,) * 4))


def test_a_scaling_of_gemma_3_is_that_of_layers_without_a_window() -> None:
    model, _ = loaded(changed("Gemma 3 1B", rope_scaling={"factor": 8.0, "rope_type": "linear"}))
    assert model.position == Rope(base=1e6, scaling=PositionInterpolation(factor=8))
    assert model.window_position == Rope(base=1e4)


def test_the_scores_of_gemma_have_a_scale_of_their_own() -> None:
    """27B: 144^(-1/2) instead of 128^(-1/2)."""
    model, _ = loaded(changed("Gemma 2 2B", head_dim=128, query_pre_attn_scalar=144))
    assert 128**-0.5 / model.temperature == pytest.approx(144**-0.5)


def test_qwen3_next_with_softmax_attention_alone() -> None:
    model, _ = loaded(QWEN3_NEXT)
    assert model.position == Rope(base=1e7, partial=0.25)
    assert model.gate == Gate(kind="output", per="channel")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed("Llama 3.1 8B", model_type="gemma3"), "model_type 'gemma3' is not among RefinedWeb"),
        (
            changed("Llama 3.1 8B", attention_multiplier=0.5),
            "config.json says attention_multiplier = 0.5: leadline does not know",
        ),
        (changed("Llama 3.1 8B", mlp_bias=True), "mlp_bias = True; leadline has this architecture with False only"),
        (changed("Llama 3.1 8B", hidden_act="gelu"), "hidden_act = 'gelu'; leadline has this architecture with 'silu' only"),
        (changed("Llama 3.1 8B", partial_rotary_factor=0.5), "partial_rotary_factor = 0.5; in llama all channels rotate"),
        (changed("Llama 3.1 8B", quantization_config={"quant_method": "awq"}), "config.json says quantization_config = "),
        (changed("Llama 3.1 8B", rope_scaling={"rope_type": "spiral"}), "rope_scaling of type 'spiral'; leadline has"),
        (changed("Llama 3.1 8B", rope_theta=None), "config.json lacks 'rope_theta'"),
        (changed("SmolLM3 3B", no_rope_layers=[0] * 36), r"no_rope_layers = \[0, .*\] is not every 4th layer"),
        (changed("Mistral 7B v0.1", layer_types=["full_attention"]), "layer_types has 1 layers, num_hidden_layers says 32"),
        (changed("Gemma 2 2B", layer_types=["chunked_attention"] * 26), "layer_types has chunked_attention; leadline has full"),
        (changed("Gemma 3 1B", use_bidirectional_attention=True), "use_bidirectional_attention = True; leadline has"),
        (changed("Gemma 3 1B", rope_local_base_freq=None), "lacks 'rope_local_base_freq', the RoPE base of layers of sliding"),
        (changed("gpt-oss-20b", quantization_config={"quant_method": "fp8"}), "quant_method = 'fp8'; leadline has mxfp4 only"),
        (changed("gpt-oss-20b", num_experts_per_tok=2), "different values for num_experts_per_tok and experts_per_token"),
        (
            QWEN3_NEXT | {"layer_types": None},
            "layer_types has linear_attention; of qwen3_next leadline has full_attention only",
        ),
        (QWEN3_NEXT | {"num_experts": 8}, "num_experts = 8; of qwen3_next leadline has dense feed-forward layers only"),
    ],
)
def test_what_would_be_another_model_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        loaded(config)
