"""GPT-OSS (OpenAI 2025, arXiv:2508.10925): sink logits, windows in every other layer, YaRN, biases, experts."""

import jax.numpy as jnp

from leadline.experiments.config.attention import LearnedSink
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.published.architectures.base import LINEAR, SAME, Architecture, Keys, Row, Split, row
from leadline.experiments.published.architectures.llama import (
    LAYER,
    PRE,
    attention_biases,
    attention_rows,
    norm_rows,
    outer_rows,
    sizes,
    windowed_layers,
    windows,
)
from leadline.experiments.published.architectures.rope import rope
from leadline.model.feedforward import CLAMP, STEEPNESS


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json of this family."""
    keys.expect(hidden_act="silu", swiglu_limit=CLAMP, swiglu_alpha=STEEPNESS)
    keys.without_effect("router_aux_loss_coef", "output_router_logits", "initial_context_length")
    if (quantised := keys.table("quantization_config").get("quant_method", "mxfp4")) != "mxfp4":
        raise keys.refuse(f"quantization_config has quant_method = {quantised!r}; leadline has mxfp4 only")
    settings = sizes(keys)
    alternating = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(settings["layers"])]
    return ModelConfig(
        **settings,
        position=rope(keys),
        biases=(*attention_biases(keys), "feedforward"),
        sink=LearnedSink(),
        feedforward="swiglu_clamped",
        experts=keys.count("num_local_experts", "num_experts"),
        active_experts=keys.count("num_experts_per_tok", "experts_per_token"),
        **windows(keys, keys.count("sliding_window"), windowed_layers(keys, keys.get("layer_types", alternating))),
    )


# [..., 2 F]: of each hidden unit the gate and then the other input.
INTERLEAVED = Split(
    lambda tensor, shapes: (tensor[..., 0::2], tensor[..., 1::2]),  # noqa: ARG005
    lambda parts: jnp.stack(parts, axis=-1).reshape(*parts[0].shape[:-1], -1),
)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    mlp, ours = LAYER + "mlp.", "blocks.feedforward."
    return (
        *outer_rows(model),
        *norm_rows(PRE),
        *attention_rows(model),
        row(LAYER + "self_attn.sinks", "blocks.sink_logit"),
        row(mlp + "router.weight", ours + "router", LINEAR),
        row(mlp + "router.bias", ours + "router_bias"),
        _pair(mlp + "experts.gate_up_proj", ours + "networks.gate", ours + "networks.up"),
        _pair(mlp + "experts.gate_up_proj_bias", ours + "networks.gate_bias", ours + "networks.up_bias"),
        row(mlp + "experts.down_proj", ours + "networks.down"),
        row(mlp + "experts.down_proj_bias", ours + "networks.down_bias"),
    )


def _pair(tensor: str, gate: str, up: str) -> Row:
    return Row(tensor, (gate, up), (SAME, SAME), INTERLEAVED)


GPT_OSS = Architecture(model_types=("gpt_oss",), configured=configured, rows=rows)
