"""The gradient of leadline's attention, and the attention that each key receives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import arrays, compared, value
from leadline.model.attention.attention import attention
from leadline.model.attention.mask import NO_WINDOW, Mask
from leadline.model.mesh import make_mesh


def prepare(texts: int, tokens: int, heads: int, compute: str) -> Prepared:
    """The gradient of plain attention. The value is the sum of squares of its entries."""
    return compared(behind_window(texts, tokens, heads, compute, None))


def windowed(tokens: int, heads: int, compute: str, window: int | None, initial_tokens: int = 0) -> Prepared:
    """The gradient of attention over one text."""
    return Prepared(behind_window(1, tokens, heads, compute, window, initial_tokens))


def received(tokens: int, heads: int) -> Prepared:
    """The sum over queries of each key's probability: a statistic of attention, of which nothing else is used."""
    q, k = (jnp.asarray(x) for x in arrays(1, tokens, heads, 2))
    with jax.set_mesh(make_mesh()):
        program, facts = compiled(lambda q, k: attention(q, k, k)[1].received, heads, q, k)
    return Prepared(lambda: program(q, k).block_until_ready(), {"value": value([program(q, k)]), **facts})


def compiled(function: Callable[..., Array], heads: int, *arguments: Any) -> tuple[Any, dict[str, float]]:
    """The compiled function, and its temporary memory for each head [MiB]."""
    program = jax.jit(function).lower(*arguments).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    return program, {"temporary_mib_per_head": analysis.temp_size_in_bytes / heads / 2**20}


def behind_window(
    texts: int, tokens: int, heads: int, compute: str, window: int | None, initial_tokens: int = 0
) -> Callable[[], tuple[Array, Array, Array]]:
    """Computes the gradients. The window and the number of initial tokens are values of the program."""
    sight = jnp.int32(NO_WINDOW if window is None else window), jnp.int32(initial_tokens)

    def attend(q: Array, k: Array, v: Array, window: Array, initial_tokens: Array) -> Array:
        return attention(q, k, v, Mask(window, initial_tokens))[0]

    with jax.set_mesh(make_mesh()):
        return gradient(attend, texts, tokens, heads, compute, *sight)


def gradient(
    attend: Callable[..., Array], texts: int, tokens: int, heads: int, compute: str, *more: Any
) -> Callable[[], tuple[Array, Array, Array]]:
    """Computes, in one program, the gradients by the queries, keys and values [B, T, N, H] of `attend`."""
    *qkv, weight = (jnp.asarray(x, jnp.dtype(compute)) for x in arrays(texts, tokens, heads))

    def loss(qkv: list[Array], *more: Any) -> Array:
        return jnp.sum((weight * attend(*qkv, *more)).astype(jnp.float32))

    program = jax.jit(jax.grad(loss)).lower(qkv, *more).compile()
    return lambda: jax.block_until_ready(tuple(program(qkv, *more)))
