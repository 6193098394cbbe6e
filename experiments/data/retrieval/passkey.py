"""Passkey: a few symbols hidden in noise, asked for at the end."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import answered, column, fillers, haystack, place, shared_values
from leadline.experiments.data.retrieval.vocabulary import ASK, NEEDLE, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


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
    words. Here the noise is filler ids and the passkey is `symbols` values, so the shortest row has 2 · symbols + 2 targets.
    `at` is the needle's depth, from 0, the first place of the context, to 1, the last; uniform if absent. (RULER has 40 depths;
    the YaRN repository cuts its noise at a random character.)

    Raises:
        UserError: where the needle and its question do not fit into `length`.
    """
    check_length("passkey", length, 2 * symbols + 2)
    noise, draw, where = jax.random.split(key, 3)
    secret = shared_values(draw, vocabulary, (batch, symbols))
    needle = jnp.concatenate([column(NEEDLE, batch), secret], axis=1)
    size = length - 1 - symbols
    slots = place(where, batch, size - symbols, 1, at)
    hidden = haystack(fillers(noise, vocabulary, batch, size), needle[:, None], slots)
    evidence = hidden.starts + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task_id("passkey"), hidden.context, column(ASK, batch), secret, evidence)
