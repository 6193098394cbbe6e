"""Falcon (arXiv:2311.16867): rotary positions or ALiBi; a residual stream with parallel sublayers, or not; exact GELU.

In models with ALiBi the bias is divided by sqrt(H) like the products. transformers rounds slopes and slope · position to
bfloat16, whatever the compute type; here both are exact.
"""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.published.architectures.base import FLAT, LINEAR, Architecture, Keys, Row, linear, row
from leadline.experiments.published.architectures.gpt import (
    BIASES,
    activation,
    by_group,
    dense,
    feedforward_rows,
    fused,
    norm_rows,
)
from leadline.experiments.published.architectures.rope import rope
from leadline.model.block import Placement

OUTER = "transformer."
LAYER = OUTER + "h.{}."
BASE = 10_000.0  # of RoPE in the first models, whose files do not say it
NORMS: dict[Placement, dict[str, str]] = {
    "pre": {"input_layernorm": "attention_norm", "post_attention_layernorm": "feedforward_norm"},
    "parallel": {"ln_attn": "attention_norm", "ln_mlp": "feedforward_norm"},
    "parallel_one_norm": {"input_layernorm": "attention_norm"},
}


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json. The first files of the 7B models say RefinedWebModel, those of the 40B ones RefinedWeb."""
    keys.expect(apply_residual_connection_post_layernorm=False)
    new = keys.get("new_decoder_architecture", keys.get("model_type") == "RefinedWeb")
    width, heads = keys.count("hidden_size", "n_embed"), keys.count("num_attention_heads", "n_head")
    hidden = keys.count("ffn_hidden_size", default=4 * width)
    keys.expect(ff_factor=hidden / width)
    return ModelConfig(
        layers=keys.count("num_hidden_layers", "n_layer"),
        width=width,
        heads=heads,
        kv_heads=_groups(keys, new, heads),
        hidden=hidden,
        norm="layer",
        norm_epsilon=keys.number("layer_norm_epsilon", default=1e-5),
        norm_placement=_placement(keys, new),
        feedforward=activation(keys, "activation", "gelu"),
        biases=BIASES if keys.get("bias", False) else (),
        position=_position(keys, width // heads),
        tied=keys.get("tie_word_embeddings", True),
    )


def _groups(keys: Keys, new: bool, heads: int) -> int:
    """Key and value heads; their number in the file counts in the new architecture only."""
    groups, multi_query = (
        keys.count("num_kv_heads", default=keys.count("n_head_kv", default=heads)),
        keys.get("multi_query", True),
    )
    return groups if new else 1 if multi_query else heads


def _placement(keys: Keys, new: bool) -> Placement:
    parallel, norms = keys.get("parallel_attn", True), keys.get("num_ln_in_parallel_attn", 2 if new else 1)
    if new and not parallel:
        raise keys.refuse("config.json has new_decoder_architecture without parallel_attn; leadline has no such model")
    if norms not in (1, 2) or (norms == 2 and parallel and not new):
        raise keys.refuse(f"config.json has num_ln_in_parallel_attn = {norms}; leadline has 1, and 2 in the new architecture")
    return ("parallel" if norms == 2 else "parallel_one_norm") if parallel else "pre"


def _position(keys: Keys, size: int) -> Alibi | Rope:
    if not keys.get("alibi", False):
        return rope(keys, base=BASE)
    keys.without_effect("rope_parameters", "rope_scaling", "rope_theta")
    return Alibi(factor=size**-0.5)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    biased, split = "output" in model.biases, by_group(model.key_heads)
    norms = {f"{LAYER}{theirs}": f"blocks.{ours}" for theirs, ours in NORMS[model.norm_placement].items()}
    attention = f"{LAYER}self_attention."
    return (
        row(f"{OUTER}word_embeddings.weight", "embedding"),
        *(() if model.tied else (row("lm_head.weight", "unembedding"),)),
        *norm_rows({f"{OUTER}ln_f": "final_norm", **norms}),
        *fused(f"{attention}query_key_value", split, (LINEAR,) * 3, (FLAT,) * 3 if biased else None),
        *dense(f"{attention}dense", "blocks.output", "blocks.biases.output" if biased else None, linear(inputs=2)),
        *feedforward_rows(f"{LAYER}mlp.dense_h_to_4h", f"{LAYER}mlp.dense_4h_to_h", biased=biased),
    )


FALCON = Architecture(model_types=("falcon", "RefinedWebModel", "RefinedWeb"), configured=configured, rows=rows, context=2048)
