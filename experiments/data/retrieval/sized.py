"""Copy a string, add two numbers: problems of different sizes in rows of one length, for length generalisation.

A size is uniform from `smallest` to the longest that fits, or at the share `at` of that range. What is after the answer
repeats END and is no target.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PRNGKeyArray

from leadline.experiments.config.data import DIGITS
from leadline.experiments.data.retrieval.vocabulary import ASK, END, PLUS, Batch, Task, shared_values, task_id
from leadline.experiments.data.sample import Sample

# A problem of n symbols or digits takes each · n + others tokens.
EACH_AND_OTHERS: dict[Task, tuple[int, int]] = {"copy": (2, 2), "addition": (3, 4)}


def largest_size(task: Task, length: int) -> int | None:
    """Symbols or digits of the largest problem that fits, for the tasks that come in sizes."""
    return _fitting(task, length) if task in EACH_AND_OTHERS else None


def copying(key: PRNGKeyArray, batch: Batch) -> Sample:
    """[s_1 … s_n, ASK, s_1 … s_n, END].

    The copy task of Kazemnejad et al. 2023 (arXiv:2305.19466), with all lengths up to a bound in training and longer ones in
    evaluation. Their strings are words in a sentence; here they are values, uniform and independent. END is part of the
    answer; its evidence is ASK, which follows s_n.

    Raises:
        UserError: where `smallest` symbols do not fit into the length.
    """
    longest = _largest("copy", batch)
    draw, size = jax.random.split(key)
    n = _drawn_sizes(size, batch, longest)
    string = shared_values(draw, batch.vocabulary, (batch.rows, longest))
    place = jnp.arange(batch.length + 1, dtype=jnp.int32)[None]
    copied = place - n - 2  # index into the copy
    tokens = jnp.where(place <= n, _read(string, place - 1), ASK)
    tokens = jnp.where(copied >= 0, _read(string, copied), tokens)
    tokens = jnp.where(copied >= n, END, tokens).at[:, 0].set(task_id("copy"))
    index = copied[:, 1:]
    target = (index >= 0) & (index <= n)
    return Sample(tokens, target.astype(jnp.float32), jnp.where(target, index + 1, -1))


def addition(key: PRNGKeyArray, batch: Batch) -> Sample:
    """[a_1 … a_n, PLUS, b_1 … b_n, ASK, c_1 … c_(n+1), END] with c = a + b.

    The addition of Kazemnejad et al. 2023 (arXiv:2305.19466), with one token per digit. The lowest digit comes first, so that
    every carry is known when it is needed (Lee et al. 2023, arXiv:2307.03381). Both operands have n digits, leading zeros
    included, and the sum has n + 1. A digit depends on two places and the carry, so no target has evidence.

    Raises:
        UserError: where `smallest` digits do not fit into the length.
    """
    longest, first = _largest("addition", batch), batch.vocabulary.first_value
    draw, size = jax.random.split(key)
    n = _drawn_sizes(size, batch, longest)
    inside = jnp.arange(longest, dtype=jnp.int32)[None, None] < n[None]
    a, b = jnp.where(inside, jax.random.randint(draw, (2, batch.rows, longest), 0, DIGITS, jnp.int32), 0)
    place = jnp.arange(batch.length + 1, dtype=jnp.int32)[None]
    second, third = place - n - 2, place - 2 * n - 3  # indices into b and c
    tokens = jnp.where(place <= n, first + _read(a, place - 1), PLUS)
    tokens = jnp.where(second >= 0, first + _read(b, second), tokens)
    tokens = jnp.where(second == n, ASK, tokens)
    tokens = jnp.where(third >= 0, first + _read(added(a, b), third), tokens)
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
    carry = (_read(pairs, decides) >= DIGITS).astype(jnp.int32)
    return (pairs[:, 1:] + carry[:, :-1]) % DIGITS


def _largest(task: Task, batch: Batch) -> int:
    """The largest size that fits. UserError where `smallest` does not."""
    each, others = EACH_AND_OTHERS[task]
    batch.check(task, each * batch.smallest + others)
    return _fitting(task, batch.length)


def _fitting(task: Task, length: int) -> int:
    each, others = EACH_AND_OTHERS[task]
    return (length - others) // each


def _drawn_sizes(key: PRNGKeyArray, batch: Batch, largest: int) -> Int32[Array, "B 1"]:
    """Uniform in smallest … largest; with `at`, smallest + round(at · (largest - smallest))."""
    if batch.at is None:
        return jax.random.randint(key, (batch.rows,), batch.smallest, largest + 1, jnp.int32)[:, None]
    return (batch.smallest + jnp.round(batch.at * (largest - batch.smallest)).astype(jnp.int32))[:, None]


def _read(tokens: Int32[Array, "B N"], index: Int32[Array, "#B P"]) -> Int32[Array, "B P"]:
    """tokens[b, index[b, p]], with indices clipped to the row; one row of indices serves all rows."""
    whole = jnp.broadcast_to(index, (tokens.shape[0], index.shape[1]))
    return jnp.take_along_axis(tokens, jnp.clip(whole, 0, tokens.shape[1] - 1), axis=1)
