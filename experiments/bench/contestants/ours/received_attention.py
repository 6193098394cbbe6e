"""Received attention, the sum over queries of each key's probability, as leadline computes it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.attention import arrays, value
from leadline.model.attention.attention import attention
from leadline.model.mesh import make_mesh


def prepare(tokens: int, heads: int) -> Prepared:
    """A statistic of leadline.model.attention, of which nothing else is used."""
    q, k = (jnp.asarray(x) for x in arrays(1, tokens, heads, 2))

    def received(q: Array, k: Array) -> Array:
        return attention(q, k, k)[1].received

    with jax.set_mesh(make_mesh()):
        program, facts = compiled(received, heads, q, k)
    return Prepared(lambda: program(q, k).block_until_ready(), {"value": value([program(q, k)]), **facts})


def compiled(function: Callable[..., Array], heads: int, *arguments: Any) -> tuple[Any, dict[str, float]]:
    """The compiled function, and its temporary memory for each head [MiB]."""
    program = jax.jit(function).lower(*arguments).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    return program, {"temporary_mib_per_head": analysis.temp_size_in_bytes / heads / 2**20}
