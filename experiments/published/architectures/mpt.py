"""MPT (MosaicML 2023): ALiBi of any exponent, LayerNorm without a bias, no other biases, exact GELU, clipped products."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.published.architectures.base import LINEAR, Architecture, Keys, Row, concatenated, linear, row
from leadline.experiments.published.architectures.gpt import feedforward_rows, fused

OUTER = "transformer."
LAYER = OUTER + "blocks.{}."
NORMS = {f"{OUTER}norm_f": "final_norm", f"{LAYER}norm_1": "blocks.attention_norm", f"{LAYER}norm_2": "blocks.feedforward_norm"}


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json. The learned positions of `learned_pos_emb` are there without ALiBi only."""
    keys.expect(no_bias=True, logit_scale=None)
    keys.without_effect(
        "learned_pos_emb", "embedding_fraction", "emb_pdrop", "init_config", "init_device", "tokenizer_name", "verbose"
    )
    if (norm := keys.get("norm_type", "layernorm")) not in ("layernorm", "low_precision_layernorm"):
        raise keys.refuse(f"config.json has norm_type = {norm!r}; leadline has this architecture with layernorm only")
    attention = keys.inside("attn_config")
    attention.required("alibi")
    attention.expect(alibi=True, attn_type="multihead_attention", prefix_lm=False, qk_ln=False, softmax_scale=None)
    attention.expect(attn_uses_sequence_id=False)
    attention.without_effect("attn_impl")
    position, clip = Alibi(exponent=attention.number("alibi_bias_max", default=8.0)), attention.get("clip_qkv")
    attention.finish()
    width = keys.count("d_model")
    return ModelConfig(
        layers=keys.count("n_layers"),
        width=width,
        heads=keys.count("n_heads"),
        hidden=keys.count("expansion_ratio", default=4) * width,
        norm="layer",
        norm_epsilon=keys.number("layer_norm_epsilon", default=1e-5),
        feedforward="gelu",
        position=position,
        clip_qkv=clip or None,
        tied=keys.get("tie_word_embeddings", True),
    )


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    return (
        row(f"{OUTER}wte.weight", "embedding"),
        *(() if model.tied else (row("lm_head.weight", "unembedding"),)),
        *(row(f"{theirs}.weight", f"{ours}.scale") for theirs, ours in NORMS.items()),
        *fused(f"{LAYER}attn.Wqkv", concatenated(0), (LINEAR,) * 3, None),
        row(f"{LAYER}attn.out_proj.weight", "blocks.output", linear(inputs=2)),
        *feedforward_rows(f"{LAYER}ffn.up_proj", f"{LAYER}ffn.down_proj", biased=False),
    )


MPT = Architecture(
    model_types=("mpt",), configured=configured, rows=rows, constants={f"{norm}.bias": 0.0 for norm in NORMS.values()}
)
