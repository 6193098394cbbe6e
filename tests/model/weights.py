"""Blocks of toy size, and weights drawn by numpy: to compile the random numbers of an initialiser takes seconds a shape."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from leadline.model.attention.gate import GateConfig
from leadline.model.block import BlockConfig

Tree = TypeVar("Tree")

BLOCK = BlockConfig(width=16, heads=4, kv_heads=2, head_dim=8, hidden=32)
# Every mechanism of a block but the encodings of positions.
VARIANTS = {
    "gate": replace(BLOCK, gate=GateConfig("output", "head"), interleaved=True, kv_heads=1),
    "KV bias": replace(BLOCK, key_bias=True, value_bias=True, soft_cap=True, kv_heads=4),
    "norms": replace(BLOCK, qk_norm=True, layer_norm=True, scalable_softmax=True, placement="sandwich"),
    "relu": replace(BLOCK, normalizer="relu_by_keys", gate=GateConfig("value", "channel")),
    "key": replace(BLOCK, gate=GateConfig("key", "channel"), placement="post", activation="gelu"),
}


def drawn(init: Callable[[], Tree], seed: int = 0) -> Tree:
    """A tree like that of `init()`, on one device: matrices N(0, 1/16), scales 1, biases 0, sink logits -inf. Needs a mesh."""
    rng = np.random.default_rng(seed)
    fixed = {"scale": 1.0, "bias": 0.0, "sink_logit": -np.inf}

    def leaf(path: tuple[Any, ...], shape: jax.ShapeDtypeStruct) -> jax.Array:
        name = path[-1].name
        numbers = np.full(shape.shape, fixed[name]) if name in fixed else 0.25 * rng.standard_normal(shape.shape)
        return jnp.asarray(numbers, jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(init))
