"""How large the gradients of each layer are."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def gradient_norms(blocks: Any) -> Float[Array, " L"]:
    """sqrt(Σ g²) of each layer over a tree of stacked gradients [L, …], such as those of a decoder's blocks; float32.

    The square of the norm of all layers is the sum of their squares. Raises ValueError if the tree is empty or its leaves do
    not agree on L.
    """
    leaves = jax.tree.leaves(blocks)
    depths = {leaf.shape[:1] for leaf in leaves}
    if len(depths) != 1 or () in depths:
        raise ValueError(f"gradients of stacked layers have one leading axis in common, not {sorted(depths)}")
    squares = [jnp.sum(jnp.square(leaf.astype(jnp.float32)), axis=tuple(range(1, leaf.ndim))) for leaf in leaves]
    return jnp.sqrt(jnp.sum(jnp.stack(squares), axis=0))
