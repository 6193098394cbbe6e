"""Phi-3 and Phi-4 (arXiv:2404.14219): the Llama family with fused products, LongRoPE, and RoPE of a part of the channels."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.published.architectures.base import LINEAR, Architecture, Keys, Row, concatenated, linear, row
from leadline.experiments.published.architectures.gpt import fused, qkv_layouts
from leadline.experiments.published.architectures.llama import LAYER, PRE, norm_rows, outer_rows, sizes
from leadline.experiments.published.architectures.rope import rope


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json."""
    model = sizes(keys)
    keys.expect(hidden_act="silu", attention_bias=False, head_dim=model["width"] // model["heads"])
    keys.without_effect("original_max_position_embeddings")  # without LongRoPE
    return ModelConfig(**model, position=rope(keys), window=keys.count_or_none("sliding_window"))


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    gate_up = ("blocks.feedforward.gate", "blocks.feedforward.up")
    return (
        *outer_rows(model),
        *norm_rows(PRE),
        *fused(f"{LAYER}self_attn.qkv_proj", concatenated(0), qkv_layouts(model, LINEAR), None),
        row(f"{LAYER}self_attn.o_proj.weight", "blocks.output", linear(inputs=2)),
        Row(f"{LAYER}mlp.gate_up_proj.weight", gate_up, (LINEAR, LINEAR), concatenated(0)),
        row(f"{LAYER}mlp.down_proj.weight", "blocks.feedforward.down", LINEAR),
    )


PHI3 = Architecture(model_types=("phi3",), configured=configured, rows=rows)
