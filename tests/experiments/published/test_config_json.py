"""Models in the words of published architectures, which read them as they are."""

from typing import Any

import pytest

from leadline.experiments.config.attention import FixedSink, LearnedSink
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions, Nope, Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import DynamicNtk, Llama3, NtkAware, PositionInterpolation, Yarn
from leadline.experiments.published.config_json import published_config, settled
from leadline.experiments.runtime.errors import UserError

LENGTH, ORIGINAL = 64, 32
ROPE = Rope(base=100.0)
QKV = ("query", "key", "value")
BIASES = (*QKV, "output", "feedforward")
GPT2 = {"norm": "layer", "feedforward": "gelu", "biases": BIASES, "position": LearnedPositions(capacity=LENGTH)}
BLOOM = {**GPT2, "feedforward": "gelu_tanh", "position": Alibi(), "embedding_norm": True}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("llama", {}),
    "sizes": ("llama", {"kv_heads": 2, "head_dim": 16, "hidden": 48, "tied": False, "norm_epsilon": 1e-5}),
    "biases": ("llama", {"biases": ("output", *QKV)}),
    "drawn otherwise": ("llama", {"embedding_init_scale": 0.02, "uniform_embedding_init": True}),
    "no sink": ("llama", {"sink": FixedSink(logit=float("-inf"))}),
    "PI": ("llama", {"position": Rope(base=100.0, scaling=PositionInterpolation(factor=4))}),
    "dynamic": ("llama", {"position": Rope(base=100.0, scaling=DynamicNtk(factor=2, original_length=LENGTH))}),
    "YaRN": ("llama", {"position": Rope(base=100.0, scaling=Yarn(factor=4, beta_fast=16, truncate=False))}),
    "Llama 3": ("llama", {"position": Rope(base=100.0, scaling=Llama3(factor=4))}),
    "Qwen2": ("qwen2", {"biases": QKV}),
    "Qwen3": ("qwen3", {"qk_norm": True, "window": 7, "windowed": (True, False)}),
    "OLMo 2": ("olmo2", {"qk_norm": True, "joint_qk_norm": True, "norm_placement": "reordered"}),
    "SmolLM3": ("smollm3", {"position": Rope(base=100.0, nope_every=2)}),
    "Mistral": ("mistral", {"window": 7, "windowed": (True,)}),
    "GPT-2": ("gpt2", GPT2),
    "GPT-2, untied": ("gpt2", {**GPT2, "feedforward": "relu", "tied": False, "hidden": 48}),
    "BLOOM": ("bloom", BLOOM),
}


def model_of(changes: dict[str, Any]) -> ModelConfig:
    return ModelConfig(**{"layers": 3, "width": 32, "heads": 4, "position": ROPE, **changes})


@pytest.mark.parametrize("what", MODELS)
def test_a_model_is_written_as_it_is_read(what: str) -> None:
    kind, changes = MODELS[what]
    config, read = published_config("mine", model_of(changes), LENGTH, ORIGINAL)
    assert config["model_type"] == kind
    assert read == settled(model_of(changes), LENGTH, ORIGINAL)


def test_learned_positions_end_with_the_training() -> None:
    absent = published_config("mine", model_of({**GPT2, "position": LearnedPositions()}), LENGTH, ORIGINAL)
    assert absent == published_config("mine", model_of(GPT2), LENGTH, ORIGINAL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sink": LearnedSink()}, "sink.kind = learned that leadline writes; the next one is llama"),
        ({"feedforward": "relu", "sink": FixedSink(logit=0)}, "feedforward = relu, sink.kind = fixed"),
        ({"position": Nope()}, "position.kind = nope"),
        ({"position": Rope(base=100.0, partial=0.5)}, "position.partial = 0.5"),
        ({"position": Rope(base=100.0, scaling=NtkAware(factor=2))}, "position.scaling.kind = ntk"),
        ({"position": Rope(base=100.0, scaling=Yarn(factor=2, ramp="rotations"))}, "position.scaling.ramp = rotations"),
        ({"position": Rope(base=100.0, scaling=DynamicNtk())}, "position.scaling.original_length = 32"),
        ({"window": 7, "windowed": (True, False)}, r"windowed = \(True, False, True\) .* the next one is mistral"),
        ({**GPT2, "biases": QKV}, r"biases = \('key', 'query', 'value'\) .* the next one is gpt2"),
        ({**BLOOM, "hidden": 48}, "hidden = 48 .* the next one is bloom"),
    ],
)
def test_what_no_architecture_can_say_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=rf"^mine: transformers has no model with .*{message}"):
        published_config("mine", model_of(changes), LENGTH, ORIGINAL)
