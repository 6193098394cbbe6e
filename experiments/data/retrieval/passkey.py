"""Passkey: a few symbols hidden in noise, asked for at the end."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from experiments.data.retrieval.haystack import answered, fillers, haystack, place
from experiments.data.retrieval.vocabulary import ASK, NEEDLE, Vocabulary, check_length, task_id
from experiments.data.sample import Sample


def passkey(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    symbols: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """Fillers with [NEEDLE, s_1 … s_n] among them, then [ASK, s_1 … s_n].

    Mohtashami and Jaggi 2023 (arXiv:2305.16300) hide one number in a repeated sentence; RULER's niah_single is the same with
    words. Here the noise is of filler ids and the key of `symbols` values, so that 2 · symbols + 2 tokens suffice. `at` is the
    needle's depth: 0 the first place of the context, 1 the last; uniform if absent (the YaRN repository cuts its noise at a
    random character and has no grid; RULER has 40 depths).

    Raises UserError where the needle and its question do not fit into `length`.
    """
    check_length("passkey", length, 2 * symbols + 2)
    noise, draw, where = jax.random.split(key, 3)
    secret = jax.random.randint(draw, (batch, symbols), vocabulary.first_value, vocabulary.first_own_value, jnp.int32)
    needle = jnp.concatenate([jnp.full((batch, 1), NEEDLE, jnp.int32), secret], axis=1)
    size = length - 1 - symbols
    slots = place(where, batch, size - symbols, 1, at)
    hidden = haystack(fillers(noise, vocabulary, batch, size), needle[:, None], slots)
    evidence = hidden.starts + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task_id("passkey"), hidden.context, jnp.full((batch, 1), ASK, jnp.int32), secret, evidence)
