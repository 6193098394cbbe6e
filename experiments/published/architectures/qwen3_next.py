"""Qwen3-Next, where all layers have softmax attention: its outputs are gated (Qiu et al. 2025, arXiv:2505.06708), a part of the
channels rotates, norms multiply by 1 + weight."""

from typing import Any

import jax.numpy as jnp

from leadline.experiments.config.attention import Gate
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.published.architectures.base import (
    LINEAR,
    SAME,
    Architecture,
    Keys,
    Row,
    Shape,
    Split,
    linear,
    row,
)
from leadline.experiments.published.architectures.gpt import qkv_layouts
from leadline.experiments.published.architectures.llama import LAYER, PRE, feedforward_rows, norm_rows, outer_rows, sizes
from leadline.experiments.published.architectures.rope import rope

# Of layers of linear attention and of experts, which are refused.
ELSEWHERE = (
    *("linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads"),
    *("linear_num_value_heads", "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok"),
    *("norm_topk_prob", "output_router_logits", "router_aux_loss_coef"),
)


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json of this family."""
    keys.expect(hidden_act="silu", attention_bias=False)
    keys.without_effect(*ELSEWHERE)
    settings = sizes(keys)
    layers, every = settings["layers"], keys.count("full_attention_interval", default=4)
    periodic = ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(layers)]
    if others := sorted(set(keys.get("layer_types", periodic)) - {"full_attention"}):
        raise keys.refuse(f"layer_types has {', '.join(others)}; of qwen3_next leadline has full_attention only")
    dense, step = keys.get("mlp_only_layers", []), keys.count("decoder_sparse_step", default=1)
    experts = [layer for layer in range(layers) if layer not in dense and (layer + 1) % step == 0]
    if (number := keys.get("num_experts", 512)) and experts:
        raise keys.refuse(f"num_experts = {number}; of qwen3_next leadline has dense feed-forward layers only")
    return ModelConfig(
        **settings,
        position=rope(keys, part=0.25),
        zero_centered_norm=True,
        qk_norm=True,
        gate=Gate(kind="output", per="channel"),
    )


def gated(size: int) -> Split:
    """Queries and gates of each head, [2 H, D] of one head after the other."""

    def ours(tensor: Any, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:  # noqa: ARG001
        by_head = tensor.reshape(-1, 2, size, tensor.shape[-1])
        return tuple(by_head[:, part].reshape(-1, tensor.shape[-1]) for part in (0, 1))

    def theirs(parts: tuple[Any, ...]) -> Any:
        width = parts[0].shape[-1]
        return jnp.concatenate([part.reshape(-1, size, width) for part in parts], axis=1).reshape(-1, width)

    return Split(ours, theirs)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    attention = LAYER + "self_attn."
    rotated, _, _ = qkv_layouts(model, LINEAR)
    rotated_scale, _, _ = qkv_layouts(model, SAME)
    return (
        *outer_rows(model),
        *norm_rows(PRE),
        *feedforward_rows(),
        Row(attention + "q_proj.weight", ("blocks.query", "blocks.gate"), (rotated, LINEAR), gated(model.head_width)),
        row(attention + "k_proj.weight", "blocks.key", rotated),
        row(attention + "v_proj.weight", "blocks.value", LINEAR),
        row(attention + "o_proj.weight", "blocks.output", linear(inputs=2)),
        *(row(f"{attention}{name[0]}_norm.weight", f"blocks.{name}_norm.scale", rotated_scale) for name in ("query", "key")),
    )


QWEN3_NEXT = Architecture(model_types=("qwen3_next",), configured=configured, rows=rows)
