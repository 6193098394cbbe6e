"""Texts whose tokens are spread over the devices of the mesh axis "text": what one device does that has some of them.

For use inside `jax.shard_map` over that axis (model.decoder.apply_spread). Each device has T consecutive tokens of S.
"""

from functools import partial

import jax
from jaxtyping import Array, Int

AXIS = "text"


def first_place(tokens: int) -> Int[Array, ""]:
    """The place in the text of the first token of this device, which has so many."""
    return tokens * jax.lax.axis_index(AXIS)


def all_tokens(x: Array, axis: int) -> Array:
    """Those of all devices, T along `axis` becoming S. Its gradient is `summed_tokens`."""
    everybody: Array = _gathered(x, axis)  # pyright: ignore[reportAssignmentType]
    return everybody


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gathered(x: Array, axis: int) -> Array:
    return jax.lax.all_gather(x, AXIS, axis=axis, tiled=True)


def summed_tokens(x: Array, axis: int) -> Array:
    """The sum over all devices, of which each keeps its own tokens: S along `axis` becoming T."""
    # Not psum_scatter, which JAX 0.10.2 cannot lower where other axes of the mesh are explicit.
    own = x.shape[axis] // jax.lax.axis_size(AXIS)
    return jax.lax.dynamic_slice_in_dim(jax.lax.psum(x, AXIS), first_place(own), own, axis)


_gathered.defvjp(lambda x, axis: (_gathered(x, axis), None), lambda axis, _, cotangent: (summed_tokens(cotangent, axis),))
