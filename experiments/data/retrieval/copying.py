"""Copy a string."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from experiments.data.retrieval.sizes import draw_sizes, read
from experiments.data.retrieval.vocabulary import ASK, END, Vocabulary, check_length, task_id
from experiments.data.sample import Sample


def longest_copy(length: int) -> int:
    """Symbols of the longest string whose row fits into `length`."""
    return (length - 2) // 2


def copying(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    smallest: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """[s_1 … s_n, ASK, s_1 … s_n, END]; what is left of the row repeats END and is no target.

    The copy task of Kazemnejad et al. 2023 (arXiv:2305.19466): all lengths up to a bound in training, longer ones in
    evaluation. Its strings are words in a sentence; here they are values, uniform and independent. END is part of the
    answer, as the end of the text is there, and is read from ASK, which stands behind s_n. n is uniform from `smallest` to
    the longest that fits, or at the share `at` of that range.

    Raises UserError where `smallest` symbols do not fit into `length`.
    """
    check_length("copy", length, 2 * smallest + 2)
    draw, size = jax.random.split(key)
    longest = longest_copy(length)
    n = draw_sizes(size, batch, longest, smallest, at)[:, None]
    string = jax.random.randint(draw, (batch, longest), vocabulary.first_value, vocabulary.first_own_value, jnp.int32)
    place = jnp.arange(length + 1, dtype=jnp.int32)[None]
    again = place - n - 2  # index into the copy
    tokens = jnp.where(place <= n, read(string, place - 1), ASK)
    tokens = jnp.where(again >= 0, read(string, again), tokens)
    tokens = jnp.where(again >= n, END, tokens).at[:, 0].set(task_id("copy"))
    target = again[:, 1:]
    asked = (target >= 0) & (target <= n)
    return Sample(tokens, asked.astype(jnp.float32), jnp.where(asked, target + 1, -1))
