"""Gemma 2 and Gemma 3 (text): norms around each sublayer whose weights are the difference from 1, scaled embeddings, GeGLU,
windows in most layers; soft caps in Gemma 2, QK-norm and another RoPE base in layers with a window in Gemma 3."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.published.architectures.base import Architecture, Keys, Row
from leadline.experiments.published.architectures.llama import (
    attention_biases,
    attention_rows,
    feedforward_rows,
    norm_rows,
    outer_rows,
    sizes,
    windowed_layers,
    windows,
)
from leadline.experiments.published.architectures.rope import rope, rope_of

NORMS = {
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "attention_end",
    "pre_feedforward_layernorm": "feedforward_norm",
    "post_feedforward_layernorm": "feedforward_end",
}


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json of these families."""
    third = keys.get("model_type") == "gemma3_text"
    keys.expect(hidden_activation="gelu_pytorch_tanh", use_bidirectional_attention=False)
    keys.without_effect("cache_implementation", "hidden_act")
    settings = sizes(keys, tied=True)
    every = keys.count("sliding_window_pattern", default=keys.count("_sliding_window_pattern", default=6))
    pattern = every if third else 2
    kinds = keys.get("layer_types")
    windowed = [(layer + 1) % pattern != 0 for layer in range(settings["layers"])]
    chosen = windows(keys, keys.count("sliding_window"), windowed if kinds is None else windowed_layers(keys, kinds))
    return ModelConfig(
        **settings,
        norm_placement="sandwich",
        zero_centered_norm=True,
        feedforward="geglu_tanh",
        scaled_embedding=True,
        biases=attention_biases(keys),
        temperature=(keys.number("query_pre_attn_scalar") / settings["head_dim"]) ** 0.5,
        soft_cap=keys.number_or_none("attn_logit_softcapping"),
        final_cap=keys.number_or_none("final_logit_softcapping"),
        qk_norm=third,
        **chosen,
        **_positions(keys, chosen),
    )


def _positions(keys: Keys, chosen: dict[str, Any]) -> dict[str, Any]:
    """The position encodings of layers with and without a window, where both are there. Gemma 2 has one of all layers."""
    if keys.get("model_type") == "gemma2":
        return {"position": rope(keys)}
    parameters = keys.table("rope_parameters") or {
        "full_attention": {"rope_theta": keys.number_or_none("rope_theta"), **keys.table("rope_scaling")},
        "sliding_attention": {"rope_theta": keys.number_or_none("rope_local_base_freq")},
    }
    by_kind = keys.within("rope_parameters", parameters)
    whole, windowed = (_rope(keys, by_kind.table(kind), kind) for kind in ("full_attention", "sliding_attention"))
    if not chosen:
        return {"position": whole}
    return {"position": whole, "window_position": windowed} if chosen["windowed"] else {"position": windowed}


def _rope(keys: Keys, parameters: Mapping[str, Any], kind: str) -> Rope:
    if parameters.get("rope_theta") is None:
        name = "rope_theta" if kind == "full_attention" else "rope_local_base_freq"
        raise keys.refuse(
            f"config.json lacks {name!r}, the RoPE base of layers of {kind}, and there is no safe default; add it"
        )
    return rope_of(keys, keys.within(f"rope_parameters: {kind}", parameters).number("rope_theta"), parameters)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    return (*outer_rows(model), *norm_rows(NORMS), *attention_rows(model), *feedforward_rows())


GEMMA = Architecture(model_types=("gemma2", "gemma3_text"), configured=configured, rows=rows)
