"""leadline's attention and its gradient."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from experiments.bench.heads import arrays, compared
from experiments.bench.worker import Prepared
from model.attention import attention
from model.mesh import make_mesh
from model.positions.tables import NO_WINDOW


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """Plain attention."""
    return compared(behind_window(texts, tokens, heads, compute, None))


def behind_window(
    texts: int, tokens: int, heads: int, compute: str, window: int | None, kept: int = 0
) -> Callable[[], tuple[Array, Array, Array]]:
    """What computes the gradients of a program that has the window and the kept tokens as values."""
    extra_logit, slopes = jnp.full(heads, -jnp.inf), jnp.zeros(heads)
    sight = jnp.int32(NO_WINDOW if window is None else window), jnp.int32(kept)

    def attend(q: Array, k: Array, v: Array, window: Array, kept: Array) -> Array:
        return attention(q, k, v, extra_logit=extra_logit, slopes=slopes, window=window, kept=kept)[0]

    with jax.set_mesh(make_mesh()):
        return gradient(attend, texts, tokens, heads, compute, *sight)


def gradient(
    attend: Callable[..., Array], texts: int, tokens: int, heads: int, compute: str, *more: Any
) -> Callable[[], tuple[Array, Array, Array]]:
    """What computes, in one program, the gradients of the queries, keys and values [B, T, N, H] that `attend` takes."""
    *qkv, weight = (jnp.asarray(x, jnp.dtype(compute)) for x in arrays(texts, tokens, heads))

    def loss(qkv: list[Array], *more: Any) -> Array:
        return jnp.sum((weight * attend(*qkv, *more)).astype(jnp.float32))

    program = jax.jit(jax.grad(loss)).lower(qkv, *more).compile()
    return lambda: jax.block_until_ready(tuple(program(qkv, *more)))
