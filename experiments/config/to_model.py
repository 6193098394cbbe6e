"""From configuration to what the model takes: its structure (compiled in) and its tables (values)."""

import math
from typing import get_args

import numpy as np
from jaxtyping import Float, Int

from leadline.experiments.config.attention import FixedSink, Gate, KeyBias, LearnedSink, Relu, Sigmoid, Softpick
from leadline.experiments.config.data import PADDING
from leadline.experiments.config.encoding import Encoding
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import LearnedPositions, Pope, Rope, Rotating, Sinusoidal
from leadline.experiments.config.position_bias import T5
from leadline.experiments.config.scaling import Extension, OfFullLayers, Scaling, extension_of
from leadline.model.attention.gate import GateConfig, gates
from leadline.model.block import BlockConfig
from leadline.model.decoder import DecoderConfig
from leadline.model.encoder_decoder import EncoderDecoderConfig
from leadline.model.feedforward import GATED


def decoder_config(model: ModelConfig, vocabulary: int, length: int, document_end: int | None = None) -> DecoderConfig:
    """The structure of a model.

    Args:
        model: its configuration.
        vocabulary: ids.
        length: the training length, where learned positions end; with an encoder they end at half of it.
        document_end: id of the token that ends a document; only a document mask needs it.
    """
    encoder, end = model.encoder, length // 2 if model.encoder.layers else length  # a source is half of a row
    structure = DecoderConfig(
        vocabulary=vocabulary,
        layers=model.layers,
        block=_block_config(model),
        tied=model.tied,
        scaled_embedding=model.scaled_embedding,
        embedding_norm=model.embedding_norm,
        embedding_init_scale=model.embedding_init_scale,
        uniform_embedding_init=model.uniform_embedding_init,
        zero_id=PADDING if model.zero_padding_embedding else None,
        learned_positions=(model.position.capacity or end) if isinstance(model.position, LearnedPositions) else 0,
        sinusoidal=isinstance(model.position, Sinusoidal),
        grid=model.rotation_layout.grid,
        final_norm=model.final_norm,
        final_cap=model.final_cap,
        unembedding_bias=model.unembedding_bias,
        document_end=document_end if model.document_mask else None,
        shared_bias=isinstance(model.position, T5) and model.position.shared,
        compute=model.compute_dtype,
    )
    if not encoder.layers:
        return structure
    sizes = {"encoder_layers": encoder.layers, "shared_embedding": encoder.shared_embedding, "padding_id": PADDING}
    return EncoderDecoderConfig(**vars(structure), **sizes)


def _block_config(model: ModelConfig) -> BlockConfig:
    """The structure of one layer."""
    gate = model.gate if isinstance(model.gate, Gate) else None
    return BlockConfig(
        width=model.width,
        heads=model.heads,
        kv_heads=model.key_heads,
        head_dim=model.head_width,
        hidden=model.hidden_width,
        activation=model.feedforward,
        layer_norm=model.norm == "layer",
        norm_epsilon=model.norm_epsilon,
        norm_offset=float(model.zero_centered_norm),
        placement=model.norm_placement,
        biases=model.biases,
        experts=model.experts or 0,
        active_experts=model.active_experts,
        gate=GateConfig(gate.kind, gate.per, gate.activation, gate.dims, gate.static, gate.zero) if gate else None,
        interleaved=model.rotation_layout.interleaved,
        polar=isinstance(model.position, Pope),
        table_per=model.position.table_per,
        position_bias=model.position.bias(),
        normalizer=_normalizer(model),
        soft_cap=model.soft_cap is not None,
        qk_norm=model.qk_norm,
        joint_qk_norm=model.joint_qk_norm,
        clip=model.clip_qkv,
        scalable_softmax=model.scalable_softmax,
        key_bias=isinstance(model.sink, KeyBias),
        value_bias=model.sink.kind == "key_value_bias",
        key_bias_dims=model.sink.dims if isinstance(model.sink, KeyBias) else None,
        cross=model.encoder.layers > 0,
    )


def _normalizer(model: ModelConfig) -> str:
    match model.normalizer:
        case Relu(by=by):
            return "relu" if by == "one" else f"relu_by_{by}"
        case Softpick(by="sum"):
            return "softpick_by_sum"
        case Sigmoid(normalised=normalised):
            return "sigmoid_by_sum" if normalised else "sigmoid"
        case _:
            return model.normalizer.kind


def sink_logits(model: ModelConfig) -> tuple[Float[np.ndarray, " L"], float]:
    """Their values at the start of training, and their learning rate over that of other weights: 0 if they are not trained.

    A logit of -inf has no gradient, so that layers without a sink stay without.
    """
    starts = {"none": -math.inf, "key_bias": 0.0, "key_value_bias": 0.0}  # the score of a key bias is that of the key alone
    logits = [sink.logit if isinstance(sink, FixedSink | LearnedSink) else starts[sink.kind] for sink in model.sinks]
    return np.array(logits, np.float32), max(sink.rate if isinstance(sink, LearnedSink) else 0.0 for sink in model.sinks)


def extended(model: ModelConfig, extension: Extension, factor: float) -> ModelConfig | None:
    """The model with its context extended by `factor` in another way than it was trained; None where there is no such way.

    An extension replaces the scaling of frequencies, where there are any left: in all layers, or in those without a window.
    """
    windowed = model.window_position or model.position
    of_full_layers, mixed = extension in get_args(OfFullLayers), len(set(model.with_window)) > 1
    if factor <= 1 or (of_full_layers and not mixed):
        return None
    scaling = extension_of(extension, factor)
    position = _scaled(model.position, scaling)
    window_position = windowed if of_full_layers else _scaled(windowed, scaling)
    if (position, window_position) == (model.position, windowed) or position.table_per != window_position.table_per:
        return None
    absent = model.window_position is None and not of_full_layers
    return model.model_copy(update={"position": position, "window_position": None if absent else window_position})


def _scaled(position: Encoding, scaling: Scaling) -> Encoding:
    """The encoding with this scaling, if it has frequencies until the end of training."""
    if not isinstance(position, Rotating) or (isinstance(position, Rope) and position.drop_after is not None):
        return position
    return position.model_copy(update={"scaling": scaling})


def projection_weights(width: int, heads: int, kv_heads: int, head_dim: int) -> int:
    """D H (2 N + 2 K): the matrices of queries and outputs, of N heads, and of keys and values, of K."""
    return width * head_dim * (2 * heads + 2 * kv_heads)


def feedforward_weights(width: int, hidden: int, activation: str) -> int:
    """D F for each matrix of a feed-forward network: three of a gated one, two of another."""
    return width * hidden * (3 if activation in GATED else 2)


def matmul_parameters(cfg: DecoderConfig) -> int:
    """Weights that take part in a matrix product for every token; the look-up of the embedding is none, the head is one."""
    b = cfg.block
    gate = 0
    if b.gate is not None and not b.gate.static:
        gate = (b.gate.dims or b.width) * math.prod(gates(b.gate, b.width, b.heads, b.kv_heads, b.head_dim))
    attention = projection_weights(b.width, b.heads, b.kv_heads, b.head_dim)
    feedforward = feedforward_weights(b.width, b.hidden, b.activation)
    if b.experts:
        feedforward = feedforward * b.active_experts + b.width * b.experts
    return cfg.layers * (attention + gate + feedforward) + b.width * cfg.vocabulary


def visible_keys(model: ModelConfig, tokens: int) -> Int[np.ndarray, " L"]:
    """Most keys that a query of a text sees in each layer, itself included: min(tokens, window + initial_tokens)."""
    nearest = min(tokens, (model.window or tokens) + (model.initial_tokens or 0))
    return np.where(model.with_window[-model.layers :], nearest, tokens)


def visible_pairs(model: ModelConfig, tokens: int) -> Int[np.ndarray, " L"]:
    """Pairs of a query and a key that it sees, in each layer, for k `visible_keys`: k (k + 1) / 2 + (tokens - k) k.

    Of chunks of k tokens each has k (k + 1) / 2, and the last, of r tokens, r (r + 1) / 2.
    """
    keys = visible_keys(model, tokens)
    if model.chunked:
        chunks, rest = np.divmod(tokens, keys)
        return chunks * (keys * (keys + 1) // 2) + rest * (rest + 1) // 2
    return keys * (keys + 1) // 2 + (tokens - keys) * keys


def attention_channels(model: ModelConfig) -> int:
    """Multiplications for a query and a key in one layer: N (H + H) for score and value, N (2 H + H) of PoPE."""
    return model.heads * model.head_width * (3 if isinstance(model.position, Pope) else 2)


def forward_flops(products: int, channels: int, tokens: int, pairs: int) -> int:
    """FLOPs of the matrix products of a forward pass: 2 products tokens + 2 channels pairs.

    Position biases, norms and activations are not counted, since they are no products of the weights.

    Args:
        products: weights that take part in a product for every token (`matmul_parameters`).
        channels: multiplications for each query and key (`attention_channels`).
        tokens: that are read.
        pairs: of a query and a key that it sees, of all layers.
    """
    return 2 * products * tokens + 2 * channels * pairs


def training_flops(cfg: DecoderConfig, length: int, model: ModelConfig) -> float:
    """FLOPs of the products of one token's forward and backward pass: 3 times `forward_flops`, as a mean over a text."""
    if isinstance(cfg, EncoderDecoderConfig):
        return _encoder_decoder_flops(cfg, length // 2)
    pairs = int(visible_pairs(model, length).sum())
    return 3 * forward_flops(matmul_parameters(cfg), attention_channels(model), length, pairs) / length


def _encoder_decoder_flops(cfg: EncoderDecoderConfig, source: int) -> float:
    """`training_flops` of a row whose halves are a source and a target of so many tokens, so that half of the tokens meet
    each stack. All see the whole source, target i of S besides it the first i targets. Gates and experts are not counted."""
    b, S = cfg.block, source
    attention = projection_weights(b.width, b.heads, b.kv_heads, b.head_dim)
    block = attention + feedforward_weights(b.width, b.hidden, b.activation)
    weights = (cfg.encoder_layers + cfg.layers) * block + cfg.layers * attention
    keys = cfg.encoder_layers * S + cfg.layers * (S + (S + 1) / 2)
    return 6.0 * (weights / 2 + b.width * cfg.vocabulary) + 12.0 * b.heads * b.head_dim * keys / 2
