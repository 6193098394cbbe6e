"""What a model takes: parameters by part, key-value cache, attention scores, and FLOPs, counted and not measured."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from leadline.experiments.config.exact import LatentAttention, Shape
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import (
    attention_channels,
    decoder_config,
    forward_flops,
    matmul_parameters,
    visible_keys,
    visible_pairs,
)
from leadline.experiments.measure import shapes
from leadline.experiments.published.load import decoder_shapes, weights_by_name
from leadline.model.attention.attention import form
from leadline.model.attention.mask import Tiling, chunks_of
from leadline.model.attention.normalizers import NORMALIZERS
from leadline.model.attention.scores import Scores

# Bits of a number.
BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "float8": 8, "int8": 8, "int4": 4}
SCORE_BYTES = 4  # scores are float32, whatever the type of queries and keys
# Parts of the weights of a decoder by the beginning of their names; what is left of a block is attention.
PARTS = {
    "embedding_norm": "norms",
    "embedding": "embedding",
    "unembedding": "unembedding",
    "positions": "positions",
    "final_norm": "norms",
    "blocks.position_bias": "positions",
    "position_bias": "positions",
    "blocks.phase": "positions",
    "blocks.feedforward_norm": "norms",
    "blocks.feedforward_end": "norms",
    "blocks.feedforward": "feedforward",
    "blocks.attention_norm": "norms",
    "blocks.attention_end": "norms",
    "blocks.query_norm": "norms",
    "blocks.key_norm": "norms",
    "blocks": "attention",
}


class Sized(NamedTuple):
    """A model whose memory is counted.

    Attributes:
        name: by which it was found.
        label: what readers see.
        model: its layers.
        context: tokens that it was made for.
        parts: numbers of weights by part.
        products: weights that take part in a matrix product for every token.
        latent: its latent attention; None without one.
        encoder: whether every token sees every other one, so that nothing is cached.
    """

    name: str
    label: str
    model: ModelConfig
    context: int
    parts: dict[str, int]
    products: int
    latent: LatentAttention | None = None
    encoder: bool = False


def of_shape(name: str, label: str, shape: Shape) -> Sized:
    """A model of which only the sizes are known."""
    parts, products = shapes.parameters(shape), shapes.product_parameters(shape)
    return Sized(name, label, shape.model, shape.context, parts, products, shape.latent, shape.encoder)


def of_decoder(name: str, label: str, model: ModelConfig, vocabulary: int, context: int) -> Sized:
    """A model that leadline runs: its weights are traced, and none is made."""
    cfg = decoder_config(model, vocabulary, context)
    parts: dict[str, int] = dict.fromkeys(("embedding", "positions", "attention", "feedforward", "norms", "unembedding"), 0)
    for weight, leaf in weights_by_name(decoder_shapes(cfg)).items():
        # Every block has sink logits; those that are not trained are no parameters.
        size = shapes.sink_parameters(model) if weight == "blocks.sink_logit" else leaf.size
        parts[next(part for beginning, part in PARTS.items() if weight.startswith(beginning))] += size
    return Sized(name, label, model, context, parts, matmul_parameters(cfg))


def cache_by_layer(sized: Sized, tokens: int, batch: int, bits: int) -> Float[np.ndarray, " L"]:
    """The key-value caches of the layers [bytes]. A layer with a window keeps the window and the initial tokens."""
    return (not sized.encoder) * batch * shapes.layer_caches(sized.model, tokens, bits, sized.latent)


def score_bytes(model: ModelConfig, tokens: int, batch: int) -> int:
    """The scores of all heads of one layer, if all of them were stored [bytes]: 4 B N T²."""
    return SCORE_BYTES * batch * model.heads * tokens**2


def blockwise_score_bytes(model: ModelConfig, tokens: int, batch: int, device: str) -> int:
    """The scores of one layer that exist at once in a forward pass of `leadline.model.attention.attention` [bytes].

        4 B N tile²                     by tiles (Dao et al. 2022, arXiv:2205.14135)
        4 B N Σ rows · keys             by chunks, a block of rows each: they are independent, and may be computed side by side
        4 B N T                         where every query rotates all keys
        0                               by a kernel, whose scores stay on the chip

    Args:
        model: its layers.
        tokens: T.
        batch: B.
        device: "cpu", "gpu" or "tpu".
    """
    cfg, tiling, head = decoder_config(model, 1, tokens).block, Tiling(), SCORE_BYTES * batch * model.heads
    if cfg.table_per == "query":
        return head * tokens
    other = cfg.soft_cap or cfg.position_bias is not None or cfg.key_bias or model.document_mask
    scores = Scores(cap=jnp.float32(1) if other else None, normalizer=NORMALIZERS[cfg.normalizer](jnp.zeros(2)))
    itemsize = jnp.dtype(model.compute_dtype).itemsize
    match form(tokens, tokens, device=device, channels=cfg.head_dim, itemsize=itemsize, scores=scores):
        case "kernel":
            return 0
        case "tiles":
            return head * tiling.tile**2
        case _:
            return head * sum(min(tiling.rows, stop - start) * stop for start, stop in chunks_of(tokens, tiling))


def prefill_flops(sized: Sized, tokens: int, batch: int) -> int:
    """FLOPs of the products of one pass over B texts, with the logits of every token (`forward_flops`).

    Latent attention makes keys of H + R channels and values of H for every head (DeepSeek-AI 2024, equations 9 to 19).
    """
    model, latent = sized.model, sized.latent
    channels = attention_channels(model) + (0 if latent is None else model.heads * latent.rotated)
    pairs = model.layers * tokens**2 if sized.encoder else int(visible_pairs(model, tokens).sum())
    return batch * forward_flops(sized.products, channels, tokens, pairs)


def token_flops(sized: Sized, tokens: int, batch: int) -> int:
    """FLOPs of the products of the last token of each of B texts, the others being in the cache.

    Latent attention multiplies queries and outputs by the matrices of keys and values, in place of all that is cached, so that
    scores take r + R multiplications and values r (DeepSeek-AI 2024, section 2.1.2).
    """
    model, latent = sized.model, sized.latent
    channels = attention_channels(model) if latent is None else model.heads * (2 * latent.rank + latent.rotated)
    return batch * forward_flops(sized.products, channels, 1, int(visible_keys(model, tokens).sum()))


def memory_of(sized: Sized, contexts: tuple[int, ...], batch: int, dtype: str, device: str) -> dict[str, Any]:
    """What a model takes, as JSON has it: bytes, numbers of weights, and FLOPs of products.

    Args:
        sized: the model.
        contexts: tokens of a text, each its own entry; () is the context of the model.
        batch: texts at once.
        dtype: of weights and cache, a key of BITS.
        device: "cpu", "gpu" or "tpu", of which attention's form depends.
    """
    bits, count, model, entries = BITS[dtype], sum(sized.parts.values()), sized.model, []
    for tokens in contexts or (sized.context,):
        cache = cache_by_layer(sized, tokens, batch, bits)
        entries.append(
            {
                "context": tokens,
                "cache_bytes": float(cache.sum()),
                "cache_bytes_by_layer": cache.tolist(),
                "cached_tokens_by_layer": [] if sized.encoder else visible_keys(model, tokens).tolist(),
                "score_bytes": score_bytes(model, tokens, batch),
                "blockwise_score_bytes": blockwise_score_bytes(model, tokens, batch, device),
                "prefill_flops": prefill_flops(sized, tokens, batch),
                "token_flops": None if sized.encoder else token_flops(sized, tokens, batch),
            }
        )
    return {
        "name": sized.name,
        "label": sized.label,
        "layers": model.layers,
        "heads": model.heads,
        "kv_heads": None if sized.latent else model.key_heads,
        "parameters": sized.parts,
        "parameter_count": count,
        "weight_bytes": count * bits / 8,
        "contexts": entries,
    }
