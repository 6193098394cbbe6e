"""Copy a string."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import shared_values
from leadline.experiments.data.retrieval.sizes import draw_sizes, read
from leadline.experiments.data.retrieval.vocabulary import ASK, END, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


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
    """[s_1 … s_n, ASK, s_1 … s_n, END]; the rest of the row repeats END and is no target.

    The copy task of Kazemnejad et al. 2023 (arXiv:2305.19466), with all lengths up to a bound in training and longer ones in
    evaluation. Their strings are words in a sentence; here they are values, uniform and independent. END is part of the
    answer; its evidence is ASK, which follows s_n. n is uniform from `smallest` to the longest that fits, or at the share `at`
    of that range.

    Raises:
        UserError: where `smallest` symbols do not fit into `length`.
    """
    check_length("copy", length, 2 * smallest + 2)
    draw, size = jax.random.split(key)
    longest = longest_copy(length)
    n = draw_sizes(size, batch, longest, smallest, at)[:, None]
    string = shared_values(draw, vocabulary, (batch, longest))
    place = jnp.arange(length + 1, dtype=jnp.int32)[None]
    copied = place - n - 2  # index into the copy
    tokens = jnp.where(place <= n, read(string, place - 1), ASK)
    tokens = jnp.where(copied >= 0, read(string, copied), tokens)
    tokens = jnp.where(copied >= n, END, tokens).at[:, 0].set(task_id("copy"))
    index = copied[:, 1:]
    target = (index >= 0) & (index <= n)
    return Sample(tokens, target.astype(jnp.float32), jnp.where(target, index + 1, -1))
