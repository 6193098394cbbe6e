"""Several keys with a value each, one of them asked for: among noise, or with nothing else in the context."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from experiments.data.retrieval.haystack import answered, distinct, fillers, haystack, place
from experiments.data.retrieval.vocabulary import ASK, Task, Vocabulary, check_length, task_id
from experiments.data.sample import Sample


def multi_key(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    needles: int = 4,
    symbols: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """Fillers with `needles` pairs [k, v_1 … v_n] among them, then [ASK, k, v_1 … v_n] for one of the keys.

    RULER's niah_multikey (Hsieh et al. 2024, arXiv:2404.06654): one needle is asked for, the others distract. Its keys are words,
    numbers or UUIDs in sentences; here they are ids, all different. `at` is the depth of the pair that is asked for.

    Raises UserError where the pairs do not fit into `length`, or the keys do not suffice.
    """
    check_length("multi_key", length, (needles + 1) * (1 + symbols) + 1)
    return _pairs(key, vocabulary, batch, length, "multi_key", needles, symbols, at)


def key_value(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    *,
    symbols: int = 1,
    at: Float[Array, "B"] | None = None,
) -> Sample:
    """As many pairs [k, v_1 … v_n] as fit, then [ASK, k, v_1 … v_n] for one of the keys.

    The key-value retrieval of "Lost in the Middle" (Liu et al. 2023, arXiv:2307.03172): a JSON object of 75, 140 or 300 pairs of
    UUIDs, one of them asked for by its position. Here a pair is 1 + symbols ids; fewer fillers than a pair has tokens stand
    between pairs where the length leaves a remainder. `at` is the place of the pair that is asked for: 0 the first.

    Raises UserError where not one pair fits into `length`, or the keys do not suffice for all of them.
    """
    width = 1 + symbols
    check_length("key_value", length, 2 * width + 1)
    return _pairs(key, vocabulary, batch, length, "key_value", (length - 1 - width) // width, symbols, at)


def _pairs(
    key: PRNGKeyArray,
    vocabulary: Vocabulary,
    batch: int,
    length: int,
    task: Task,
    count: int,
    symbols: int,
    at: Float[Array, "B"] | None,
) -> Sample:
    """The first of `count` pairs is the one that is asked for; where it stands is drawn."""
    vocabulary.need("keys", count, task)
    noise, names, draw, where = jax.random.split(key, 4)
    keys = distinct(names, batch, vocabulary.first_key, vocabulary.keys, count)
    values = jax.random.randint(draw, (batch, count, symbols), vocabulary.first_value, vocabulary.size, jnp.int32)
    size = length - 1 - (1 + symbols)
    slots = place(where, batch, size - count * symbols, count, at)
    pairs = jnp.concatenate([keys[:, :, None], values], axis=2)
    hidden = haystack(fillers(noise, vocabulary, batch, size), pairs, slots)
    question = jnp.concatenate([jnp.full((batch, 1), ASK, jnp.int32), keys[:, :1]], axis=1)
    evidence = hidden.starts[:, :1] + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task_id(task), hidden.context, question, values[:, 0], evidence)
