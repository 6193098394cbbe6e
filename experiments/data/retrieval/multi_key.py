"""Several keys with a value each, of which one or all are asked for."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import answered, column, distinct, fillers, haystack, place, values_of
from leadline.experiments.data.retrieval.vocabulary import ASK, Task, Vocabulary, check_length, task_id
from leadline.experiments.data.sample import Sample


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

    RULER's niah_multikey (Hsieh et al. 2024, arXiv:2404.06654): one needle is asked for, the others distract. RULER's keys are
    words, numbers or UUIDs in sentences; here they are ids, all different. `at` is the depth of the pair asked for.

    Raises:
        UserError: where the pairs do not fit into `length`, or there are too few keys.
    """
    check_length("multi_key", length, (needles + 1) * (1 + symbols) + 1)
    return _pairs(key, vocabulary, batch, length, "multi_key", needles, symbols, at)


def multi_query(key: PRNGKeyArray, vocabulary: Vocabulary, batch: int, length: int, *, needles: int = 8) -> Sample:
    """Fillers with `needles` pairs [k, v] among them, then [ASK, k, v, k', v' …] for all of the keys, in random order.

    RULER's niah_multiquery (Hsieh et al. 2024, arXiv:2404.06654) asks for four keys in one sentence and answers after it. Here
    each answer follows its key, as in the associative recall of Arora et al. 2023 (arXiv:2312.04927). A row teaches `needles`
    lookups, where the tasks with one question teach one.

    Raises:
        UserError: where the pairs and their questions do not fit into `length`, or there are too few keys.
    """
    check_length("multi_query", length, 4 * needles + 1)
    vocabulary.need("keys", needles, "multi_query")
    noise, names, draw, where = jax.random.split(key, 4)
    keys = distinct(names, batch, vocabulary.first_key, vocabulary.keys, needles)
    pairs = jnp.concatenate([keys[:, :, None], values_of(draw, vocabulary, keys, 1)], axis=2)
    size = length - 1 - 2 * needles
    # The slots are in random order, so the order of the questions is not that of the text.
    hidden = haystack(fillers(noise, vocabulary, batch, size), pairs, place(where, batch, size - needles, needles))
    questions = [column(ASK, batch), pairs.reshape(batch, 2 * needles)]
    tokens = jnp.concatenate([column(task_id("multi_query"), batch), hidden.context, *questions], axis=1)
    evidence = jnp.full((batch, length), -1, jnp.int32).at[:, size + 2 :: 2].set(hidden.starts + 2)
    return Sample(tokens, (evidence >= 0).astype(jnp.float32), evidence)


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

    The key-value retrieval of "Lost in the Middle" (Liu et al. 2023, arXiv:2307.03172): a JSON object of 75, 140 or 300 pairs
    of UUIDs, one of which is asked for. Here a pair is 1 + symbols ids, and fillers take up the remainder of the length. `at`
    is the place of the pair asked for: 0 the first, 1 the last.

    Raises:
        UserError: where no pair fits into `length`, or there are too few keys.
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
    """Rows with `count` pairs at drawn places, the first of which is asked for."""
    vocabulary.need("keys", count, task)
    noise, names, draw, where = jax.random.split(key, 4)
    keys = distinct(names, batch, vocabulary.first_key, vocabulary.keys, count)
    values = values_of(draw, vocabulary, keys, symbols)
    size = length - 1 - (1 + symbols)
    slots = place(where, batch, size - count * symbols, count, at)
    pairs = jnp.concatenate([keys[:, :, None], values], axis=2)
    hidden = haystack(fillers(noise, vocabulary, batch, size), pairs, slots)
    question = jnp.concatenate([column(ASK, batch), keys[:, :1]], axis=1)
    evidence = hidden.starts[:, :1] + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task_id(task), hidden.context, question, values[:, 0], evidence)
