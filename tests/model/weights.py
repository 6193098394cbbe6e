"""Weights for tests, drawn by numpy: to compile the random numbers of an initialiser takes seconds for every shape."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")


def drawn(init: Callable[[], Tree], seed: int = 0) -> Tree:
    """A tree like that of `init()`, on one device: matrices N(0, 1/16), scales 1, biases 0, sink logits -inf. Needs a mesh."""
    rng = np.random.default_rng(seed)
    fixed = {"scale": 1.0, "bias": 0.0, "sink_logit": -np.inf}

    def leaf(path: tuple[Any, ...], shape: jax.ShapeDtypeStruct) -> jax.Array:
        name = path[-1].name
        numbers = np.full(shape.shape, fixed[name]) if name in fixed else 0.25 * rng.standard_normal(shape.shape)
        return jnp.asarray(numbers, jnp.float32)

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(init))
