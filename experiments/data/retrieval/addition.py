"""Add two numbers, digit by digit."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.data.retrieval.sizes import draw_sizes, read
from leadline.experiments.data.retrieval.vocabulary import ASK, DIGITS, END, PLUS, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


def longest_addition(length: int) -> int:
    """Digits of the longest operands whose row fits into `length`."""
    return (length - 4) // 3


def addition(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    smallest: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """[a_1 … a_n, PLUS, b_1 … b_n, ASK, c_1 … c_(n+1), END] with c = a + b; the rest repeats END and is no target.

    The addition of Kazemnejad et al. 2023 (arXiv:2305.19466), with one token per digit. The lowest digit comes first, so that
    every carry is known when it is needed (Lee et al. 2023, arXiv:2307.03381). Both operands have n digits, leading zeros
    included, and the sum has n + 1. A digit depends on two places and the carry, so no target has evidence. n is uniform from
    `smallest` to the longest that fits, or at the share `at` of that range.

    Raises:
        UserError: where `smallest` digits do not fit into `length`.
    """
    check_length("addition", length, 3 * smallest + 4)
    draw, size = jax.random.split(key)
    longest = longest_addition(length)
    n = draw_sizes(size, batch, longest, smallest, at)[:, None]
    inside = jnp.arange(longest, dtype=jnp.int32)[None, None] < n[None]
    operands = jnp.where(inside, jax.random.randint(draw, (2, batch, longest), 0, DIGITS, jnp.int32), 0)
    total = added(operands[0], operands[1])
    place = jnp.arange(length + 1, dtype=jnp.int32)[None]
    second, third = place - n - 2, place - 2 * n - 3  # indices into b and c
    tokens = jnp.where(place <= n, vocabulary.first_value + read(operands[0], place - 1), PLUS)
    tokens = jnp.where(second >= 0, vocabulary.first_value + read(operands[1], second), tokens)
    tokens = jnp.where(second == n, ASK, tokens)
    tokens = jnp.where(third >= 0, vocabulary.first_value + read(total, third), tokens)
    tokens = jnp.where(third > n, END, tokens).at[:, 0].set(task_id("addition"))
    index = third[:, 1:]
    target = (index >= 0) & (index <= n + 1)
    return Sample(tokens, target.astype(jnp.float32), jnp.full_like(index, -1))


def added(a: Int32[Array, "B N"], b: Int32[Array, "B N"]) -> Int32[Array, "B N+1"]:
    """The digits of a + b, lowest first.

    A pair of digits passes a carry on where its sum is 9, and makes one where its sum is above 9. So place i receives a carry
    if the nearest lower pair whose sum is not 9 makes one.
    """
    pairs = jnp.pad(a + b, ((0, 0), (1, 1)))  # a pair of sum 0 on either side: no carry comes in, and one may go out
    index = jnp.broadcast_to(jnp.arange(pairs.shape[1], dtype=jnp.int32), pairs.shape)
    decides = jax.lax.cummax(jnp.where(pairs == DIGITS - 1, -1, index), axis=1)
    carry = (read(pairs, decides) >= DIGITS).astype(jnp.int32)
    return (pairs[:, 1:] + carry[:, :-1]) % DIGITS
