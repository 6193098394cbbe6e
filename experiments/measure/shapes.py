"""Parameters and key-value caches of language models, counted from their shapes.

Axes: V vocabulary, D width, L layers, N query heads, K key and value heads, H channels of a head, F hidden channels, E experts.
"""

import numpy as np
from jaxtyping import Float

from leadline.experiments.config.attention import LearnedSink, NoSink
from leadline.experiments.config.exact import LatentAttention, Shape
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Pope
from leadline.experiments.config.to_model import feedforward_weights, projection_weights, visible_keys
from leadline.model.feedforward import GATED

# Norms of a layer, by where they stand (leadline.model.layer).
NORMS = {"pre": 2, "post": 2, "sandwich": 4, "reordered": 2, "parallel": 2, "parallel_one_norm": 1}


def parameters(shape: Shape) -> dict[str, int]:
    """The parameters of each part of a model. Their sum is that of the model.

        embedding     V D
        positions     C D of a learned table of C positions
        attention     L times `attention_parameters`, and `sink_parameters`
        feedforward   `feedforward_parameters` of all layers
        norms         `norm_parameters` of all layers, and of those outside
        unembedding   V D, 0 where it is the embedding, and V of a bias
        other         D for each type of token, and D² + D of a pooler

    Args:
        shape: of the model.

    Returns:
        Numbers of weights by part.
    """
    model, D = shape.model, shape.model.width
    table = shape.vocabulary * D
    return {
        "embedding": table,
        "positions": shape.table_positions * D,
        "attention": model.layers * attention_parameters(shape) + sink_parameters(model),
        "feedforward": feedforward_parameters(shape),
        "norms": norm_parameters(shape),
        "unembedding": (0 if model.tied else table) + shape.vocabulary * model.unembedding_bias,
        "other": shape.token_types * D + shape.pooler * (D * D + D),
    }


def attention_parameters(shape: Shape) -> int:
    """The parameters of one layer's attention, without its norms and sink logits.

    D H (2 N + 2 K) are the matrices of queries, keys, values and outputs. Their biases have N H, K H, K H and D. Latent
    attention (DeepSeek-AI 2024, arXiv:2405.04434, equations 9 to 19), of ranks r_q and r and with R rotated channels, has
    matrices of

        D r_q + r_q N (H + R)        queries, from D channels to r_q, and from these to every head
        D (r + R) + 2 r N H          keys and values, likewise, and the rotated key that heads share
        N H D                        outputs
    """
    model = shape.model
    D, N, H = model.width, model.heads, model.head_width
    if shape.latent is not None:
        r_q, r, R = shape.latent.query_rank, shape.latent.rank, shape.latent.rotated
        return D * r_q + r_q * N * (H + R) + D * (r + R) + 2 * r * N * H + N * H * D
    K = model.key_heads
    biases = {"query": N * H, "key": K * H, "value": K * H, "output": D}
    return projection_weights(D, N, K, H) + sum(biases.get(name, 0) for name in model.biases)


def sink_parameters(model: ModelConfig) -> int:
    """The sink logits of all layers of a decoder that are trained: N of each layer with a learned sink."""
    return model.heads * sum(isinstance(sink, LearnedSink) for sink in model.sinks[-model.layers :])


def network_parameters(model: ModelConfig, hidden: int) -> int:
    """The parameters of one feed-forward network of F channels: 3 D F where it is gated, otherwise 2 D F, and its biases."""
    matrices = feedforward_weights(model.width, hidden, model.feedforward)
    inputs = 2 if model.feedforward in GATED else 1
    return matrices + ("feedforward" in model.biases) * (inputs * hidden + model.width)


def feedforward_parameters(shape: Shape) -> int:
    """The parameters of the feed-forward networks of all layers: one a layer, or (E + shared) of them and a router of D E."""
    model = shape.model
    network = network_parameters(model, model.hidden_width)
    if model.experts is None:
        return model.layers * network
    router = model.experts * (model.width + ("feedforward" in model.biases))
    layer = (model.experts + shape.shared_experts) * network + router
    dense = network if shape.dense_hidden is None else network_parameters(model, shape.dense_hidden)
    return shape.dense_layers * dense + (model.layers - shape.dense_layers) * layer


def norm_parameters(shape: Shape) -> int:
    """The parameters of all norms: D of an RMSNorm, 2 D of a LayerNorm.

    One stands after the last layer, unless a layer ends with its own ("post"). Queries and keys have RMSNorms of H channels
    each, or of N H and K H; latent attention has RMSNorms of its two vectors.
    """
    model = shape.model
    norm = model.width * (2 if model.norm == "layer" else 1)
    queries, keys = (model.heads, model.key_heads) if model.joint_qk_norm else (1, 1)
    layer = NORMS[model.norm_placement] * norm + model.qk_norm * (queries + keys) * model.head_width
    if shape.latent is not None:
        layer += shape.latent.query_rank + shape.latent.rank
    return model.layers * layer + norm * ((model.norm_placement != "post") + model.embedding_norm)


def active_parameters(shape: Shape) -> int:
    """The parameters that take part in each token: without the experts that are not chosen and the look-up of an embedding.

    OpenAI 2025 (arXiv:2508.10925), Table 1, counts in this way. A tied embedding is the unembedding, and counts, unless the
    model is an encoder, which has no unembedding. Tables of positions count.
    """
    model = shape.model
    idle = 0
    if model.experts is not None:
        network = network_parameters(model, model.hidden_width)
        idle = (model.layers - shape.dense_layers) * (model.experts - model.active_experts) * network
    looked_up = shape.vocabulary * model.width if shape.encoder or not model.tied else 0
    return sum(parameters(shape).values()) - idle - looked_up


def product_parameters(shape: Shape) -> int:
    """The weights that take part in a matrix product for every token: the active ones without norms, biases and tables.

    Of an encoder the pooler does not, since it sees the first token alone.
    """
    model = shape.model.model_copy(update={"biases": (), "sink": NoSink(), "window_sink": None, "unembedding_bias": False})
    bare = shape.model_copy(update={"model": model})
    parts = parameters(bare)
    return active_parameters(bare) - parts["norms"] - parts["positions"] - parts["other"]


def cached_numbers(model: ModelConfig, latent: LatentAttention | None = None) -> int:
    """What one layer caches of a token: 2 K H numbers, or r + R of latent attention (DeepSeek-AI 2024, Table 1).

    A key of PoPE has 2 H channels, so that it caches 3 K H.
    """
    if latent is not None:
        return latent.rank + latent.rotated
    return model.key_heads * model.head_width * (3 if isinstance(model.position, Pope) else 2)


def layer_caches(model: ModelConfig, tokens: int, bits: int, latent: LatentAttention | None = None) -> Float[np.ndarray, " L"]:
    """The key-value cache of a text in each layer [bytes]: bits / 8 · `cached_numbers` · min(tokens, window).

    Initial tokens that a query sees besides its window are kept too.

    Args:
        model: its layers. The vocabulary is not in the equation.
        tokens: of the text.
        bits: of a number.
        latent: its latent attention; None without one.
    """
    return bits / 8 * cached_numbers(model, latent) * visible_keys(model, tokens)


def cache_share(shape: Shape) -> float:
    """`cached_numbers` over 2 N H, those of multi-head attention with keys and values of their own for each query head."""
    return cached_numbers(shape.model, shape.latent) / (2 * shape.model.heads * shape.model.head_width)
