"""From configuration to what the model takes: its structure (compiled in) and its tables (values)."""

import math
from typing import cast

import numpy as np

from experiments.config import (
    Alibi,
    FixedSink,
    LearnedPositions,
    LearnedSink,
    ModelConfig,
    NoScaling,
    NtkAware,
    OutputGate,
    PositionInterpolation,
    Rope,
    Scaling,
    ValueGate,
    Yarn,
)
from model.block import BlockConfig
from model.decoder import DecoderConfig
from model.gating import Gate
from model.positions import rope_scaling, yarn
from model.positions.alibi import alibi_slopes
from model.positions.tables import NO_WINDOW, PositionTables, position_tables


def head_dim(model: ModelConfig) -> int:
    return model.head_dim or model.width // model.heads


def decoder_config(model: ModelConfig, vocabulary: int, length: int) -> DecoderConfig:
    """The structure; `length` is the training length, where a learned position table ends."""
    return DecoderConfig(
        vocabulary=vocabulary,
        layers=model.layers,
        block=BlockConfig(
            width=model.width,
            heads=model.heads,
            kv_heads=model.kv_heads or model.heads,
            head_dim=head_dim(model),
            hidden=model.hidden or 4 * model.width,
            activation=model.feedforward,
            layer_norm=model.norm == "layer",
            gate=_gate(model),
            interleaved=isinstance(model.position, Rope) and model.position.interleaved,
        ),
        tied=model.tied,
        scaled_embedding=model.scaled_embedding,
        learned_positions=length if isinstance(model.position, LearnedPositions) else 0,
        compute=model.compute,
    )


def _gate(model: ModelConfig) -> Gate:
    match model.gate:
        case OutputGate(per=per) | ValueGate(per=per):
            return cast(Gate, f"{model.gate.kind}_{'headwise' if per == 'head' else 'elementwise'}")
        case _:
            return "none"


def extra_logit(model: ModelConfig) -> tuple[float, bool]:
    """Its value at the start of training, and whether it is trained."""
    match model.sink:
        case FixedSink(logit=logit):
            return logit, False
        case LearnedSink(logit=logit):
            return logit, True
        case _:
            return -math.inf, False


def tables(model: ModelConfig, train_length: int) -> PositionTables:
    """The tables of a model, as float32 [L, …]."""
    size = head_dim(model)
    window = model.window or NO_WINDOW
    match model.position:
        case Rope(base=base, scaling=scaling):
            frequencies, factor = rope_table(size, base, scaling, train_length)
            return position_tables(
                model.layers,
                model.heads,
                size,
                inverse_frequencies=frequencies,
                attention_factor=factor,
                window=window,
            )
        case Alibi():
            slopes = alibi_slopes(model.heads)
            return position_tables(model.layers, model.heads, size, slopes=slopes, window=window)
        case _:
            return position_tables(model.layers, model.heads, size, window=window)


def rope_table(size: int, base: float, scaling: Scaling, train_length: int) -> tuple[np.ndarray, float]:
    """Inverse frequencies, float64 [H/2], and the final factor of cos and sin."""
    match scaling:
        case NoScaling():
            return rope_scaling.inverse_frequencies(size, base), 1.0
        case PositionInterpolation(factor=factor):
            return rope_scaling.position_interpolation(size, base, factor), 1.0
        case NtkAware(factor=factor):
            return rope_scaling.ntk_aware(size, base, factor), 1.0
        case Yarn(factor=factor):
            table = yarn.yarn(
                size,
                base,
                factor,
                scaling.original_length or train_length,
                beta_fast=scaling.beta_fast,
                beta_slow=scaling.beta_slow,
                truncate=scaling.truncate,
            )
            return table, scaling.attention_factor or yarn.yarn_attention_factor(factor)


def extended(model: ModelConfig, extension: str, factor: float) -> ModelConfig | None:
    """The model with its context extended by `factor` in another way than it was trained; None where there is no such way.

    "none" is every model as it is. The others replace the scaling of RoPE, and only there.
    """
    if extension == "none":
        return model
    if not isinstance(model.position, Rope) or factor <= 1:
        return None
    scaling = {"pi": PositionInterpolation, "ntk": NtkAware, "yarn": Yarn}[extension](factor=factor)
    return model.model_copy(update={"position": model.position.model_copy(update={"scaling": scaling})})


def matmul_parameters(cfg: DecoderConfig) -> int:
    """Weights that take part in a matrix product for every token; the look-up of the embedding is none, the head is one."""
    b = cfg.block
    heads = {"none": 0, "output": b.heads, "value": b.kv_heads}[b.gate.split("_")[0]]
    gate = b.width * heads * (b.head_dim if b.gate.endswith("elementwise") else 1)
    attention = b.width * b.head_dim * (2 * b.heads + 2 * b.kv_heads)
    feedforward = b.width * b.hidden * (3 if b.activation == "swiglu" else 2)
    return cfg.layers * (attention + gate + feedforward) + b.width * cfg.vocabulary


def training_flops(cfg: DecoderConfig, length: int, window: int | None = None) -> float:
    """Matmul FLOPs of one token's forward and backward pass: 6 a parameter, and attention over the keys that are visible.

    Causal and window-limited: query i of T sees min(i, window) keys, at 4 · N · H FLOPs forward and twice that backward.
    """
    seen = np.minimum(np.arange(1, length + 1), window or length).mean()
    return 6.0 * matmul_parameters(cfg) + 12.0 * cfg.layers * cfg.block.heads * cfg.block.head_dim * float(seen)
