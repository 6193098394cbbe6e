"""GPT-NeoX and Pythia (arXiv:2204.06745, 2304.01373): partial RoPE, parallel sublayers or not, biases, exact GELU."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.published.architectures.base import FLAT, LINEAR, Architecture, Keys, Row, linear, row
from leadline.experiments.published.architectures.gpt import (
    BIASES,
    activation,
    by_group,
    dense,
    feedforward_rows,
    fused,
    norm_rows,
    qkv_layouts,
)
from leadline.experiments.published.architectures.rope import rope

OUTER = "gpt_neox."
LAYER = OUTER + "layers.{}."
ATTENTION = LAYER + "attention."


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json."""
    keys.expect(is_decoder=False)
    keys.without_effect("classifier_dropout")
    biased = keys.get("attention_bias", True)
    return ModelConfig(
        layers=keys.count("num_hidden_layers"),
        width=keys.count("hidden_size"),
        heads=keys.count("num_attention_heads"),
        hidden=keys.count("intermediate_size"),
        norm="layer",
        norm_epsilon=keys.number("layer_norm_eps", default=1e-5),
        norm_placement="parallel" if keys.get("use_parallel_residual", True) else "pre",
        feedforward=activation(keys, "hidden_act", "gelu"),
        biases=BIASES if biased else ("feedforward",),
        position=rope(keys, base_key="rotary_emb_base", part_key="rotary_pct", part=None),
        tied=keys.get("tie_word_embeddings", False),
    )


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    biased = "output" in model.biases
    norms = {
        f"{OUTER}final_layer_norm": "final_norm",
        f"{LAYER}input_layernorm": "blocks.attention_norm",
        f"{LAYER}post_attention_layernorm": "blocks.feedforward_norm",
    }
    weights, biases = (qkv_layouts(model, layout) for layout in (LINEAR, FLAT))
    return (
        row(f"{OUTER}embed_in.weight", "embedding"),
        *(() if model.tied else (row("embed_out.weight", "unembedding"),)),
        *norm_rows(norms),
        *fused(f"{ATTENTION}query_key_value", by_group(model.heads), weights, biases if biased else None),
        *dense(f"{ATTENTION}dense", "blocks.output", "blocks.biases.output" if biased else None, linear(inputs=2)),
        *feedforward_rows(f"{LAYER}mlp.dense_h_to_4h", f"{LAYER}mlp.dense_4h_to_h", biased=True),
    )


GPT_NEOX = Architecture(
    model_types=("gpt_neox",),
    configured=configured,
    rows=rows,
    buffers=tuple(ATTENTION + name for name in ("bias", "masked_bias", "rotary_emb.inv_freq")),
    spellings={"embed_out.": "lm_head."},
)
