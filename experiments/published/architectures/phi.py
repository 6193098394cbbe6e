"""Phi-1 and Phi-2 (arXiv:2306.11644): partial RoPE, parallel sublayers with one LayerNorm, biases of all products."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.published.architectures.base import FLAT, LINEAR, Architecture, Keys, Row, linear, row
from leadline.experiments.published.architectures.gpt import BIASES, activation, dense, feedforward_rows, norm_rows, qkv_layouts
from leadline.experiments.published.architectures.rope import rope

OUTER = "model."
LAYER = OUTER + "layers.{}."
ATTENTION = LAYER + "self_attn."


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json."""
    width, heads = keys.count("hidden_size"), keys.count("num_attention_heads")
    keys.expect(qk_layernorm=False, head_dim=width // heads)
    return ModelConfig(
        layers=keys.count("num_hidden_layers"),
        width=width,
        heads=heads,
        kv_heads=keys.count("num_key_value_heads", default=heads),
        hidden=keys.count("intermediate_size"),
        norm="layer",
        norm_epsilon=keys.number("layer_norm_eps", default=1e-5),
        norm_placement="parallel_one_norm",
        feedforward=activation(keys, "hidden_act", "gelu_new"),
        biases=BIASES,
        position=rope(keys, part=None),
        tied=keys.get("tie_word_embeddings", False),
        unembedding_bias=True,
    )


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    head = (row("lm_head.bias", "unembedding_bias"), *(() if model.tied else (row("lm_head.weight", "unembedding"),)))
    parts = ("query", "key", "value")
    weights, biases = (dict(zip(parts, qkv_layouts(model, layout), strict=True)) for layout in (LINEAR, FLAT))
    return (
        row(f"{OUTER}embed_tokens.weight", "embedding"),
        *head,
        *norm_rows({f"{OUTER}final_layernorm": "final_norm", f"{LAYER}input_layernorm": "blocks.attention_norm"}),
        *(row(f"{ATTENTION}{part[0]}_proj.weight", f"blocks.{part}", weights[part]) for part in parts),
        *(row(f"{ATTENTION}{part[0]}_proj.bias", f"blocks.biases.{part}", biases[part]) for part in parts),
        *dense(f"{ATTENTION}dense", "blocks.output", "blocks.biases.output", linear(inputs=2)),
        *feedforward_rows(f"{LAYER}mlp.fc1", f"{LAYER}mlp.fc2", biased=True),
    )


PHI = Architecture(model_types=("phi",), configured=configured, rows=rows)
