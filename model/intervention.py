"""Interventions in the heads of a trained model, for ablations: values, so that one program serves all of them."""

from typing import no_type_check

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from leadline.model.mesh import HEADS, on_mesh


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class Intervention:
    """One row per layer. To hide tokens, use `padding` (model.context)."""

    head: Float[Array, "*L N"]  # multiplies the output of a head: 0 removes it
    forced: Float[Array, "*L N"]  # share of a head's attention that is moved to the first token: 1 puts all of it there
    first_value: Float[Array, "*L K"]  # multiplies the first token's value: 0 empties it
    mean_value: Float[Array, "*L K"]  # share of the mean value of the other tokens that is added to the first token's


def no_intervention(layers: int, heads: int, kv_heads: int) -> Intervention:
    """The values that change nothing, [layers, …]."""
    return Intervention(
        head=jnp.ones((layers, heads)),
        forced=jnp.zeros((layers, heads)),
        first_value=jnp.ones((layers, kv_heads)),
        mean_value=jnp.zeros((layers, kv_heads)),
    )


def with_first_value(v: Float[Array, "B T K H"], p: Intervention) -> Float[Array, "B T K H"]:
    """v_0 <- first_value · v_0 + mean_value · mean_{t > 0} v_t, of each text and head. Texts begin at 0 and have no padding."""
    mean = jnp.sum(v[:, 1:], axis=1) / max(1, v.shape[1] - 1)  # of a text of one token 0
    first = p.first_value.astype(v.dtype)[None, :, None] * v[:, 0] + p.mean_value.astype(v.dtype)[None, :, None] * mean
    return jnp.concatenate([first[:, None], v[:, 1:]], axis=1)


def with_heads(o: Float[Array, "B T N H"], v: Float[Array, "B T K H"], p: Intervention) -> Float[Array, "B T N H"]:
    """head · ((1 - forced) · o + forced · v_0); attention that is all on the first token gives v_0."""
    shared = o.shape[2] // v.shape[2]
    first = jnp.repeat(v[:, :1], shared, axis=2, total_repeat_length=o.shape[2], out_sharding=on_mesh(HEADS))
    forced, head = (x.astype(o.dtype)[None, None, :, None] for x in (p.forced, p.head))
    return head * ((1 - forced) * o + forced * first)
