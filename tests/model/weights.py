"""Decoders of toy size, and weights drawn by numpy: to compile the random numbers of an initialiser takes seconds a shape."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from leadline.model.attention.gate import GateConfig
from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.block import BlockConfig, initial_sink_logit
from leadline.model.decoder import Decoder, DecoderConfig, init_decoder
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import PositionTables, position_tables

Tree = TypeVar("Tree")

BLOCK = BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32)
# Every mechanism of a block but the encodings of positions.
VARIANTS = {
    "gate": replace(BLOCK, gate=GateConfig("output", "head"), interleaved=True, kv_heads=1),
    "KV bias": replace(BLOCK, key_bias=True, value_bias=True, soft_cap=True, kv_heads=4),
    "norms": replace(BLOCK, qk_norm=True, layer_norm=True, scalable_softmax=True, placement="sandwich"),
    "relu": replace(BLOCK, normalizer="relu_by_keys", gate=GateConfig("value", "channel")),
    "key": replace(BLOCK, gate=GateConfig("key", "channel"), placement="post", activation="gelu"),
    "experts": replace(BLOCK, experts=3, active_experts=2, biases=("query", "feedforward"), placement="parallel"),
}
CONFIG = DecoderConfig(vocabulary=29, layers=2, block=BLOCK, tied=False)
FREQUENCIES = inverse_frequencies(8, 100.0)


def nope(layers: int = 2, **fields: Any) -> PositionTables:
    tables = position_tables(layers, 4, 8, **fields)
    return replace(tables, attention=hyperparameters(layers, cap=3.0))  # which blocks without a soft cap do not read


def rope(layers: int = 2, **fields: Any) -> PositionTables:
    return nope(layers, **{"inverse_frequencies": FREQUENCIES} | fields)


def alibi(layers: int = 2) -> PositionTables:
    return nope(layers, slopes=alibi_slopes(4))


def weights(cfg: DecoderConfig = CONFIG, *, sink_logit: float | None = None) -> Decoder:
    """Embeddings N(0, 1), the sink logits as `init_decoder` has them, the rest as `drawn`."""
    p = drawn(lambda: init_decoder(jax.random.key(0), cfg), seed=2)
    sink_logit = initial_sink_logit(cfg.block) if sink_logit is None else sink_logit
    blocks = replace(p.blocks, sink_logit=jnp.asarray(np.full(p.blocks.sink_logit.shape, sink_logit, np.float32)))
    return replace(p, embedding=4 * p.embedding, blocks=blocks)


def drawn(init: Callable[[], Tree], seed: int = 0, *, uneven: float = 0.0) -> Tree:
    """A tree like that of `init()`, on one device. Needs a mesh.

    Matrices are N(0, 1/16), scales 1 and biases 0, both with a standard deviation of `uneven`, sink logits -inf.
    """
    rng = np.random.default_rng(seed)
    moments = {"scale": (1.0, uneven), "bias": (0.0, uneven), "sink_logit": (-np.inf, 0.0)}

    def leaf(path: tuple[Any, ...], shape: jax.ShapeDtypeStruct) -> jax.Array:
        mean, deviation = moments.get(path[-1].name, (0.0, 0.25))
        noise = rng.standard_normal(shape.shape) if deviation else np.zeros(shape.shape)
        return jnp.asarray(np.float32(mean + deviation * noise))

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(init))
