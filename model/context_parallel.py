"""Context parallelism: a text whose tokens are sharded over the mesh axis "text", as one of its devices sees it.

For use inside `jax.shard_map` over that axis (model.decoder.apply_context_parallel). Each device has T consecutive tokens of S.
"""

from functools import partial

import jax
from jaxtyping import Array, Int

AXIS = "text"


def first_position(tokens: int) -> Int[Array, ""]:
    """The position in the text of the first of this device's `tokens` tokens."""
    return tokens * jax.lax.axis_index(AXIS)


def gather_tokens(x: Array, axis: int) -> Array:
    """The tokens of all devices: T along `axis` becomes S. The gradient is `sum_tokens`."""
    gathered: Array = _gathered(x, axis)  # pyright: ignore[reportAssignmentType]
    return gathered


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gathered(x: Array, axis: int) -> Array:
    return jax.lax.all_gather(x, AXIS, axis=axis, tiled=True)


def sum_tokens(x: Array, axis: int) -> Array:
    """The sum over all devices, of which each keeps its tokens: S along `axis` becomes T."""
    # Not psum_scatter, which JAX 0.10.2 cannot lower where other axes of the mesh are explicit.
    tokens = x.shape[axis] // jax.lax.axis_size(AXIS)
    return jax.lax.dynamic_slice_in_dim(jax.lax.psum(x, AXIS), first_position(tokens), tokens, axis)


_gathered.defvjp(lambda x, axis: (_gathered(x, axis), None), lambda axis, _, cotangent: (sum_tokens(cotangent, axis),))
