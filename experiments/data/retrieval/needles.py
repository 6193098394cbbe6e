"""Tasks whose answers are hidden among fillers: passkey, keys with values, chains of assignments.

Those of RULER (Hsieh et al. 2024, arXiv:2404.06654) and of "Lost in the Middle" (Liu et al. 2023, arXiv:2307.03172), with ids
in place of sentences, words and UUIDs. Each raises UserError where its needles and its question do not fit into the length, or
where there are too few keys or values.
"""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from leadline.experiments.data.retrieval.haystack import answered, column, distinct, haystack, place, shared_values, values_of
from leadline.experiments.data.retrieval.vocabulary import ASK, EQUALS, NEEDLE, Batch, Task, check_length, task_id
from leadline.experiments.data.sample import Sample


def passkey(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with [NEEDLE, s_1 … s_n] among them, then [ASK, s_1 … s_n].

    Mohtashami and Jaggi 2023 (arXiv:2305.16300) hide one number in a repeated sentence; RULER's niah_single is the same with
    words. Here the noise is filler ids and the passkey is `symbols` values, so the shortest row has 2 · symbols + 2 targets.
    `at` is the needle's depth, from 0, the first place of the context, to 1, the last. (RULER has 40 depths; the YaRN
    repository cuts its noise at a random character.)
    """
    symbols = batch.data.symbols
    check_length("passkey", batch.length, 2 * symbols + 2)
    noise, draw, where = jax.random.split(key, 3)
    secret = shared_values(draw, batch.vocabulary, (batch.rows, symbols))
    needle = jnp.concatenate([column(NEEDLE, batch.rows), secret], axis=1)
    size = batch.length - 1 - symbols
    hidden = haystack(noise, batch, size, needle[:, None], place(where, batch.rows, size - symbols, 1, batch.at))
    evidence = hidden.starts + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered("passkey", hidden, column(ASK, batch.rows), secret, evidence)


def multi_key(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with `needles` pairs [k, v_1 … v_n] among them, then [ASK, k, v_1 … v_n] for one of the keys.

    RULER's niah_multikey: one needle is asked for, the others distract; the keys are all different. `at` is the depth of the
    pair asked for.
    """
    check_length("multi_key", batch.length, (batch.data.needles + 1) * (1 + batch.data.symbols) + 1)
    return _pairs(key, batch, "multi_key", batch.data.needles)


def key_value(key: PRNGKeyArray, batch: Batch) -> Sample:
    """As many pairs [k, v_1 … v_n] as fit, then [ASK, k, v_1 … v_n] for one of the keys.

    The key-value retrieval of "Lost in the Middle": a JSON object of 75, 140 or 300 pairs of UUIDs, one of which is asked for.
    Here a pair is 1 + symbols ids, and fillers take up the remainder of the length. `at` is the place of the pair asked for:
    0 the first, 1 the last.
    """
    width = 1 + batch.data.symbols
    check_length("key_value", batch.length, 2 * width + 1)
    return _pairs(key, batch, "key_value", (batch.length - 1 - width) // width)


def _pairs(key: PRNGKeyArray, batch: Batch, task: Task, count: int) -> Sample:
    """Rows with `count` pairs at drawn places, the first of which is asked for."""
    v, symbols = batch.vocabulary, batch.data.symbols
    v.need("keys", count, task)
    noise, names, draw, where = jax.random.split(key, 4)
    keys = distinct(names, batch.rows, v.first_key, v.keys, count)
    values = values_of(draw, v, keys, symbols)
    size = batch.length - 1 - (1 + symbols)
    slots = place(where, batch.rows, size - count * symbols, count, batch.at)
    hidden = haystack(noise, batch, size, jnp.concatenate([keys[:, :, None], values], axis=2), slots)
    question = jnp.concatenate([column(ASK, batch.rows), keys[:, :1]], axis=1)
    evidence = hidden.starts[:, :1] + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task, hidden, question, values[:, 0], evidence)


def multi_query(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with `queries` pairs [k, v] among them, then [ASK, k, v, k', v' …] for all of the keys, in random order.

    RULER's niah_multiquery asks for four keys in one sentence and answers after it. Here each answer follows its key, as in the
    associative recall of Arora et al. 2023 (arXiv:2312.04927). A row teaches `queries` lookups, where the tasks with one
    question teach one.
    """
    v, needles = batch.vocabulary, batch.data.queries
    check_length("multi_query", batch.length, 4 * needles + 1)
    v.need("keys", needles, "multi_query")
    noise, names, draw, where = jax.random.split(key, 4)
    keys = distinct(names, batch.rows, v.first_key, v.keys, needles)
    pairs = jnp.concatenate([keys[:, :, None], values_of(draw, v, keys, 1)], axis=2)
    size = batch.length - 1 - 2 * needles
    # The slots are in random order, so the order of the questions is not that of the text.
    hidden = haystack(noise, batch, size, pairs, place(where, batch.rows, size - needles, needles))
    questions = [column(ASK, batch.rows), pairs.reshape(batch.rows, 2 * needles)]
    tokens = jnp.concatenate([column(task_id("multi_query"), batch.rows), hidden.context, *questions], axis=1)
    evidence = jnp.full((batch.rows, batch.length), -1, jnp.int32).at[:, size + 2 :: 2].set(hidden.starts + 2)
    return Sample(tokens, (evidence >= 0).astype(jnp.float32), evidence)


def multi_value(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with pairs [k, v_1], …, [k, v_n] of one key among them, then [ASK, k, v_1 … v_n] in the order of the text.

    RULER's niah_multivalue accepts the values in any order and scores the share that is named. Here the answer has one order,
    and all values have to be right. They are all different, so that each determines the next.
    """
    v, answers = batch.vocabulary, batch.data.answers
    check_length("multi_value", batch.length, 3 * answers + 2)
    v.need("values", answers, "multi_value")
    noise, name, draw, where = jax.random.split(key, 4)
    named = jax.random.randint(name, (batch.rows, 1), v.first_key, v.first_value, jnp.int32)
    values = distinct(draw, batch.rows, v.first_value, v.values, answers)
    size = batch.length - 2 - answers
    slots = jnp.sort(place(where, batch.rows, size - answers, answers), axis=1)
    pairs = jnp.stack([jnp.broadcast_to(named, values.shape), values], axis=2)
    hidden = haystack(noise, batch, size, pairs, slots)
    question = jnp.concatenate([column(ASK, batch.rows), named], axis=1)
    return answered("multi_value", hidden, question, values, hidden.starts + 1)


def variable_tracking(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with statements [x_1, =, v], [x_2, =, x_1], … among them, then [ASK, v, x_1, x_2 …] for one chain.

    RULER's variable tracking: `chains` chains of 1 + hops statements each, interleaved but in order within a chain; all
    variables of one value are asked for. RULER has one chain of four hops and scores the share of variables that are named in
    any order; here they follow the order of the chain, and all have to be right. Each token of the answer takes one step of the
    chain. Asking for the last variable alone would take all steps in one token, which measures the depth of the model rather
    than its reach.
    """
    v, chains, links = batch.vocabulary, batch.data.chains, 1 + batch.data.hops
    count = chains * links
    check_length("variable_tracking", batch.length, 3 * count + links + 2)
    v.need("keys", count, "variable_tracking")
    v.need("values", chains, "variable_tracking")
    noise, names, draw, where, mixed = jax.random.split(key, 5)
    variables = distinct(names, batch.rows, v.first_key, v.keys, count).reshape(batch.rows, chains, links)
    values = distinct(draw, batch.rows, v.first_value, v.values, chains)
    sources = jnp.concatenate([values[:, :, None], variables[:, :, :-1]], axis=2)
    statements = jnp.stack([variables, jnp.full_like(variables, EQUALS), sources], axis=3).reshape(batch.rows, count, 3)
    size = batch.length - 2 - links
    free = jnp.sort(place(where, batch.rows, size - 2 * count, count), axis=1)
    # Which of the sorted slots are each chain's: a random share, ascending within the chain.
    ranks = jnp.sort(place(mixed, batch.rows, count, count).reshape(batch.rows, chains, links), axis=2)
    slots = jnp.take_along_axis(free, ranks.reshape(batch.rows, count), axis=1)
    hidden = haystack(noise, batch, size, statements, slots)
    question = jnp.concatenate([column(ASK, batch.rows), values[:, :1]], axis=1)
    return answered("variable_tracking", hidden, question, variables[:, 0], hidden.starts[:, :links])
