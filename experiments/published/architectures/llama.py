"""Llama 1, 2 and 3, Mistral, SmolLM, SmolLM3, OLMo 2, Qwen2 and Qwen3: RMSNorm, RoPE, SwiGLU, grouped heads."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.published.architectures.base import FLAT, LINEAR, Architecture, Keys, Row, linear, row
from leadline.experiments.published.architectures.rope import rope
from leadline.model.block import Biased

LAYER = "model.layers.{}."
QKV: tuple[Biased, ...] = ("query", "key", "value")
# The norms of a layer: the file's names and ours.
PRE = {"input_layernorm": "attention_norm", "post_attention_layernorm": "feedforward_norm"}
REORDERED = {"post_attention_layernorm": "attention_norm", "post_feedforward_layernorm": "feedforward_norm"}


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json of these families."""
    kind = keys.get("model_type")
    keys.expect(hidden_act="silu", mlp_bias=False, use_mrope=False, rope_interleaved=False)
    keys.without_effect("is_llama_config", "pretraining_tp", "transformers.js_config")
    layers, olmo = keys.count("num_hidden_layers"), kind == "olmo2"
    return ModelConfig(
        **sizes(keys, tied=kind == "smollm3"),
        biases=QKV if kind == "qwen2" else attention_biases(keys),
        position=_position(keys, kind, layers),
        norm_placement="reordered" if olmo else "pre",
        qk_norm=olmo or kind == "qwen3",
        joint_qk_norm=olmo,
        **_windows(keys, kind, layers),
    )


def sizes(keys: Keys, *, tied: bool = False) -> dict[str, Any]:
    """The settings that most families have under the same keys; `tied` is that of files that do not state it."""
    width, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    return {
        "layers": keys.count("num_hidden_layers"),
        "width": width,
        "heads": heads,
        "kv_heads": keys.count("num_key_value_heads", default=heads),
        "head_dim": keys.count("head_dim", default=width // heads),
        "hidden": keys.count("intermediate_size"),
        "norm_epsilon": keys.number("rms_norm_eps"),
        "tied": keys.get("tie_word_embeddings", tied),
    }


def attention_biases(keys: Keys) -> tuple[Biased, ...]:
    """The products of attention that have a bias."""
    return (*QKV, "output") if keys.get("attention_bias", False) else ()


def _position(keys: Keys, kind: str, layers: int) -> Rope:
    """RoPE; in SmolLM3 every n-th layer has none."""
    position = rope(keys)
    if position.partial != 1:
        raise keys.refuse(f"partial_rotary_factor = {position.partial}; in {kind} all channels rotate")
    if kind != "smollm3":
        return position
    every = keys.count("no_rope_layer_interval", default=4)
    rotated = keys.get("no_rope_layers")  # 1 where a layer has RoPE
    if rotated is not None and rotated != [int((layer + 1) % every != 0) for layer in range(layers)]:
        raise keys.refuse(f"no_rope_layers = {rotated} is not every {every}th layer, the pattern that leadline has")
    return position.model_copy(update={"nope_every": every})


def _windows(keys: Keys, kind: str, layers: int) -> dict[str, Any]:
    """The sliding window and its layers. In Qwen2 and Qwen3 the first `max_window_layers` are without."""
    kinds = keys.get("layer_types")
    used = keys.get("use_sliding_window", kind == "mistral")
    first = keys.get("max_window_layers", layers if kind in ("qwen2", "qwen3") else 0)
    keys.without_effect("sliding_window")  # where it is not used
    window = keys.count_or_none("sliding_window") if used else None
    return windows(keys, window, [layer >= first for layer in range(layers)] if kinds is None else windowed_layers(keys, kinds))


def windowed_layers(keys: Keys, kinds: list[str]) -> list[bool]:
    """Which layers have the window, by the `layer_types` of a config.json."""
    if unknown := sorted(set(kinds) - {"full_attention", "sliding_attention"}):
        raise keys.refuse(f"layer_types has {', '.join(unknown)}; leadline has full_attention and sliding_attention")
    return [kind == "sliding_attention" for kind in kinds]


def windows(keys: Keys, window: int | None, windowed: list[bool]) -> dict[str, Any]:
    """The settings of a sliding window in the layers that are `windowed`; none where there is no such layer."""
    if len(windowed) != (layers := keys.count("num_hidden_layers")):
        raise keys.refuse(f"layer_types has {len(windowed)} layers, num_hidden_layers says {layers}")
    if window is None or not any(windowed):
        return {}
    return {"window": window, "windowed": () if all(windowed) else tuple(windowed)}


def attention_rows(model: ModelConfig) -> tuple[Row, ...]:
    """The products of attention, their biases and norms, as the Llama family names them."""
    attention, normed = LAYER + "self_attn.", ("query", "key") if model.qk_norm else ()
    layouts = {**dict.fromkeys(QKV, LINEAR), "output": linear(inputs=2)}
    return (
        *(row(f"{attention}{name[0]}_proj.weight", f"blocks.{name}", layout) for name, layout in layouts.items()),
        *(row(f"{attention}{name[0]}_proj.bias", f"blocks.biases.{name}", FLAT) for name in layouts if name in model.biases),
        *(row(f"{attention}{name[0]}_norm.weight", f"blocks.{name}_norm.scale") for name in normed),
    )


def norm_rows(norms: Mapping[str, str]) -> tuple[Row, ...]:
    """The norms of a layer."""
    return tuple(row(f"{LAYER}{theirs}.weight", f"blocks.{ours}.scale") for theirs, ours in norms.items())


def feedforward_rows() -> tuple[Row, ...]:
    """The products of a gated feed-forward layer, as the Llama family names them."""
    return tuple(row(f"{LAYER}mlp.{name}_proj.weight", f"blocks.feedforward.{name}", LINEAR) for name in ("gate", "up", "down"))


def outer_rows(model: ModelConfig) -> tuple[Row, ...]:
    """What is not of a layer, as the Llama family names it."""
    head = () if model.tied else (row("lm_head.weight", "unembedding"),)
    return (row("model.embed_tokens.weight", "embedding"), row("model.norm.weight", "final_norm.scale"), *head)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    norms = norm_rows(REORDERED if model.norm_placement == "reordered" else PRE)
    return (*outer_rows(model), *norms, *attention_rows(model), *feedforward_rows())


LLAMA = Architecture(
    model_types=("llama", "mistral", "olmo2", "qwen2", "qwen3", "smollm3"),
    configured=configured,
    rows=rows,
    buffers=(LAYER + "self_attn.rotary_emb.inv_freq",),
)
