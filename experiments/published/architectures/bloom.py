"""BLOOM (arXiv:2211.05100): ALiBi, LayerNorm of the embeddings too, biases, GELU by tanh, query, key and value by head."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.published.architectures.base import FLAT, LINEAR, Architecture, Keys, Row, linear, row
from leadline.experiments.published.architectures.gpt import BIASES, by_group, dense, feedforward_rows, fused, norm_rows

OUTER = "transformer."
LAYER = OUTER + "h.{}."
# Of Megatron's kernels, and of the order of its sums. Any offset of ALiBi gives the same attention.
KERNELS = (
    *("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi"),
    *("pretraining_tp", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"),
)


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json."""
    width = keys.count("hidden_size", "n_embed")
    keys.expect(apply_residual_connection_post_layernorm=False, n_inner=4 * width)
    keys.without_effect(*KERNELS)
    return ModelConfig(
        layers=keys.count("n_layer", "num_hidden_layers"),
        width=width,
        heads=keys.count("n_head", "num_attention_heads"),
        norm="layer",
        norm_epsilon=keys.number("layer_norm_epsilon", default=1e-5),
        feedforward="gelu_tanh",
        biases=BIASES,
        position=Alibi(),
        tied=keys.get("tie_word_embeddings", True),
        embedding_norm=True,
    )


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    norms = {
        f"{OUTER}word_embeddings_layernorm": "embedding_norm",
        f"{OUTER}ln_f": "final_norm",
        f"{LAYER}input_layernorm": "blocks.attention_norm",
        f"{LAYER}post_attention_layernorm": "blocks.feedforward_norm",
    }
    attention = f"{LAYER}self_attention."
    return (
        row(f"{OUTER}word_embeddings.weight", "embedding"),
        *(() if model.tied else (row("lm_head.weight", "unembedding"),)),
        *norm_rows(norms),
        *fused(f"{attention}query_key_value", by_group(model.heads), (LINEAR,) * 3, (FLAT,) * 3),
        *dense(f"{attention}dense", "blocks.output", "blocks.biases.output", linear(inputs=2)),
        *feedforward_rows(f"{LAYER}mlp.dense_h_to_4h", f"{LAYER}mlp.dense_4h_to_h", biased=True),
    )


BLOOM = Architecture(model_types=("bloom",), configured=configured, rows=rows, spellings={OUTER: ""}, context=2048)
