"""Column sums of causal attention as leadline computes them, as JAX users write them, and what of them no one can save."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from experiments.bench.heads import HEAD, arrays, value
from experiments.bench.worker import Prepared
from model.attention import attention
from model.mesh import make_mesh

SIDE, TILE = 1024, 2**16


def prepare(tokens: int, heads: int) -> Prepared:
    """A statistic of model.attention.attention, of which nothing else is used."""
    q, k = (jnp.asarray(x) for x in arrays(1, tokens, heads, 2))
    plain = {"extra_logit": jnp.full(heads, -jnp.inf), "slopes": jnp.zeros(heads), "window": jnp.int32(tokens)}

    def received(q: Array, k: Array) -> Array:
        return attention(q, k, k, **plain)[1].received

    with jax.set_mesh(make_mesh()):
        program, facts = _compiled(received, heads, q, k)
    return Prepared(lambda: program(q, k).block_until_ready(), {"value": value([program(q, k)]), **facts})


def materialised(tokens: int, heads: int) -> Prepared:
    """softmax of all scores, then a sum over queries as a product: as a mean over an axis it takes a hundred times as long."""
    q, k = (jnp.asarray(x[0]) for x in arrays(1, tokens, heads, 2))

    ones = jnp.ones((heads, tokens))  # of each head, and an argument: else XLA transposes the matrix, or sums over its axis

    def received(q: Array, k: Array, ones: Array) -> Array:
        scores = jnp.einsum("inh,jnh->nij", q, k) * HEAD**-0.5
        seen = jnp.tril(jnp.ones((tokens, tokens), bool))
        return jnp.einsum("nij,ni->nj", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1), ones)

    program, facts = _compiled(received, heads, q, k, ones)
    found = {"value": value([program(q, k, ones)]), **facts}
    return Prepared(lambda: program(q, k, ones).block_until_ready(), found)


def floor(tokens: int, heads: int, passes: int) -> Prepared:
    """As many FLOPs as the causal products have, in products of SIDE × SIDE, and as many exponentials, in cache."""
    products = round(passes * heads * tokens**2 * HEAD / (2.0 * SIDE**3))
    exponentials = round(passes * heads * tokens**2 / 2 / TILE)
    a = jax.random.normal(jax.random.key(0), (SIDE, SIDE)) * SIDE**-0.5
    x = jax.random.normal(jax.random.key(1), (TILE,))
    work = jax.jit(
        lambda a, x: (
            jax.lax.fori_loop(0, products, lambda _, y: y @ a, a),
            jax.lax.fori_loop(0, exponentials, lambda _, y: jnp.exp(-y), x),
        )
    )
    return Prepared(lambda: jax.block_until_ready(work(a, x)))


def _compiled(function: Callable[..., Array], heads: int, *given: Any) -> tuple[Any, dict[str, float]]:
    program = jax.jit(function).lower(*given).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    return program, {"temporary_mib_per_head": analysis.temp_size_in_bytes / heads / 2**20}
