"""GPT-2: learned positions, LayerNorm, biases, GELU by tanh; its matrices are [inputs, outputs]."""

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions
from leadline.experiments.published.architectures.base import (
    FLAT,
    SAME,
    Architecture,
    Keys,
    Layout,
    Row,
    concatenated,
    linear,
    row,
)
from leadline.experiments.published.architectures.gpt import BIASES, activation, dense, feedforward_rows, fused, norm_rows

OUTER = "transformer."
LAYER = OUTER + "h.{}."


def configured(keys: Keys) -> ModelConfig:
    """The model of a config.json."""
    keys.expect(scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    keys.without_effect("reorder_and_upcast_attn", "n_ctx", "task_specific_params")
    keys.without_effect(*(f"summary_{name}" for name in ("activation", "first_dropout", "proj_to_labels", "type", "use_proj")))
    width, heads = keys.count("n_embd"), keys.count("n_head")
    return ModelConfig(
        layers=keys.count("n_layer"),
        width=width,
        heads=heads,
        hidden=keys.count("n_inner", default=4 * width),
        norm="layer",
        norm_epsilon=keys.number("layer_norm_epsilon", default=1e-5),
        feedforward=activation(keys, "activation_function", "gelu_new"),
        biases=BIASES,
        position=LearnedPositions(capacity=keys.count("n_positions")),
        temperature=1.0 if keys.get("scale_attn_weights", True) else (width // heads) ** -0.5,
        tied=keys.get("tie_word_embeddings", True),
    )


def matrix(inputs: int = 1) -> Layout:
    """A weight as [*inputs, *outputs] with so many axes of inputs, of transformers' `Conv1D`."""
    return Layout(SAME.ours, lambda w: linear(inputs).theirs(w).T)


def rows(model: ModelConfig) -> tuple[Row, ...]:
    """Every tensor."""
    norms = {f"{OUTER}ln_f": "final_norm", f"{LAYER}ln_1": "blocks.attention_norm", f"{LAYER}ln_2": "blocks.feedforward_norm"}
    return (
        row(f"{OUTER}wte.weight", "embedding"),
        row(f"{OUTER}wpe.weight", "positions"),
        *(() if model.tied else (row("lm_head.weight", "unembedding"),)),
        *norm_rows(norms),
        *fused(f"{LAYER}attn.c_attn", concatenated(-1), (matrix(),) * 3, (FLAT,) * 3),
        *dense(f"{LAYER}attn.c_proj", "blocks.output", "blocks.biases.output", matrix(inputs=2)),
        *feedforward_rows(f"{LAYER}mlp.c_fc", f"{LAYER}mlp.c_proj", biased=True, layout=SAME),
    )


GPT2 = Architecture(
    model_types=("gpt2",),
    configured=configured,
    rows=rows,
    buffers=(LAYER + "attn.bias", LAYER + "attn.masked_bias"),
    spellings={OUTER: ""},
)
