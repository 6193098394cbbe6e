"""How far attention reaches and what it takes: exact numbers, from the functions that models run."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array

from leadline.experiments.runtime.live import bodies
from leadline.model.attention.attention import attend
from leadline.model.attention.mask import Mask
from leadline.model.attention.normalizers import Terms, softmax
from leadline.model.attention.scores import Scores
from leadline.model.block import BlockConfig, init_block

PROJECTIONS = ("query", "key", "value", "output")


def span(window: int, layers: int) -> int:
    """Tokens from an output of a stack of windowed attention back to the farthest input with a gradient.

    A layer passes the gradient of a query to the keys that it sees, of which the farthest is the query of the layer below.
    """
    tokens = layers * (window + 1) + 1  # more than the stack can reach
    vector = jnp.ones((1, 1, 1, 2))
    keys = jnp.ones((1, tokens, 1, 2))

    @jax.jit
    def farthest(query: Array) -> Array:
        mask = Mask(window=window, first_query=query)
        gradient = jax.grad(lambda v: jnp.sum(attend(vector, keys, v, mask)[0]))(keys)
        return jnp.argmax(gradient[0, :, 0, 0] > 0)

    query = jnp.asarray(tokens - 1)
    for _ in range(layers):
        query = farthest(query)
    return tokens - 1 - int(query)


def sizes(width: int, heads: int, tokens: int) -> dict[str, int]:
    """Weights, FLOPs of products and bytes of scores of attention whose heads share a width. Nothing is allocated.

    Args:
        width: D = N · H.
        heads: N.
        tokens: T queries, which see all T keys.
    """
    head_dim = width // heads
    config = BlockConfig(width=width, heads=heads, kv_heads=heads, head_dim=head_dim, hidden=width)
    block: Any = jax.eval_shape(lambda key: init_block(key, config), jax.random.key(0))
    q = jax.ShapeDtypeStruct((1, tokens, heads, head_dim), jnp.float32)
    bytes_of_scores = []

    def seen(scores: Array, sink_logit: Array) -> Terms:
        bytes_of_scores.append(scores.size * scores.dtype.itemsize)
        return softmax(scores, sink_logit)

    traced: Any = jax.make_jaxpr(lambda q: attend(q, q, q, scores=Scores(normalizer=Partial(seen)))[0])(q)
    return {
        "projection_weights": sum(math.prod(getattr(block, name).shape) for name in PROJECTIONS),
        "product_flops": sum(product_flops(traced.jaxpr)),
        "score_bytes": bytes_of_scores[0],
    }


def product_flops(jaxpr: Any) -> Iterator[int]:
    """2 · M · N · K of each matrix product that the outputs of a traced function need, those of inner functions included."""
    needed = set(map(id, jaxpr.outvars))
    for equation in reversed(jaxpr.eqns):
        if needed.isdisjoint(map(id, equation.outvars)):
            continue
        needed.update(map(id, equation.invars))
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            yield 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted)
        for inner in bodies(equation):
            yield from product_flops(inner)
