"""Tasks whose answers are hidden among fillers: passkey, keys with values, chains of assignments.

Those of RULER (Hsieh et al. 2024, arXiv:2404.06654) and of "Lost in the Middle" (Liu et al. 2024, arXiv:2307.03172), with ids
in place of sentences, words and UUIDs. Each raises UserError where its needles and its question do not fit into the length, or
where there are too few keys or values.

The needles are pieces of equal width at random places of a row of fillers, none over another: a context of C tokens with n
pieces of width w is a sequence of C - n (w - 1) slots, each of which holds one filler or one piece. Every choice of n slots is
equally likely. RULER instead draws again until a sample fits, which may never end.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.data.retrieval.vocabulary import ASK, EQUALS, NEEDLE, Batch, Task, shared_values, task_id
from leadline.experiments.data.sample import Sample


def passkey(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with [NEEDLE, s_1 … s_n] among them, then [ASK, s_1 … s_n].

    Mohtashami and Jaggi 2023 (arXiv:2305.16300) hide one number in a repeated sentence; RULER's niah_single is the same with
    words. Here the noise is filler ids and the passkey is `symbols` values, so the shortest row has 2 · symbols + 2 targets.
    `at` is the needle's depth, from 0, the first place of the context, to 1, the last. (RULER has 40 depths; the YaRN
    repository cuts its noise at a random character.)
    """
    symbols = batch.data.symbols
    batch.check("passkey", 2 * symbols + 2)
    noise, draw, where = jax.random.split(key, 3)
    secret = shared_values(draw, batch.vocabulary, (batch.rows, symbols))
    needle = jnp.concatenate([column(NEEDLE, batch.rows), secret], axis=1)
    size = batch.length - 1 - symbols
    hidden = haystack(noise, batch, size, needle[:, None], distinct(where, batch.rows, size - symbols, 1, batch.at))
    evidence = hidden.starts + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered("passkey", hidden, secret[:, :0], secret, evidence)


def multi_key(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with `needles` pairs [k, v_1 … v_n] among them, then [ASK, k, v_1 … v_n] for one of the keys.

    RULER's niah_multikey: one needle is asked for, the others distract; the keys are all different. `at` is the depth of the
    pair asked for.
    """
    batch.check("multi_key", (batch.data.needles + 1) * (1 + batch.data.symbols) + 1, keys=batch.data.needles)
    return _pairs(key, batch, "multi_key", batch.data.needles)


def key_value(key: PRNGKeyArray, batch: Batch) -> Sample:
    """As many pairs [k, v_1 … v_n] as fit, then [ASK, k, v_1 … v_n] for one of the keys.

    The key-value retrieval of "Lost in the Middle": a JSON object of 75, 140 or 300 pairs of UUIDs, one of which is asked for.
    Here a pair is 1 + symbols ids, and fillers take up the remainder of the length. `at` is the place of the pair asked for:
    0 the first, 1 the last.
    """
    width = 1 + batch.data.symbols
    count = (batch.length - 1 - width) // width
    batch.check("key_value", 2 * width + 1, keys=count)
    return _pairs(key, batch, "key_value", count)


def _pairs(key: PRNGKeyArray, batch: Batch, task: Task, count: int) -> Sample:
    """Rows with `count` pairs at drawn places, the first of which is asked for."""
    v, symbols = batch.vocabulary, batch.data.symbols
    noise, names, draw, where = jax.random.split(key, 4)
    keys = v.first_key + distinct(names, batch.rows, batch.data.keys, count)
    values = values_of(draw, batch, keys, symbols)
    size = batch.length - 1 - (1 + symbols)
    slots = distinct(where, batch.rows, size - count * symbols, count, batch.at)
    hidden = haystack(noise, batch, size, jnp.concatenate([keys[:, :, None], values], axis=2), slots)
    evidence = hidden.starts[:, :1] + 1 + jnp.arange(symbols, dtype=jnp.int32)[None]
    return answered(task, hidden, keys[:, :1], values[:, 0], evidence)


def multi_query(key: PRNGKeyArray, batch: Batch) -> Sample:
    """Fillers with `queries` pairs [k, v] among them, then [ASK, k, v, k', v' …] for all of the keys, in random order.

    RULER's niah_multiquery asks for four keys in one sentence and answers after it. Here each answer follows its key, as in the
    associative recall of Arora et al. 2023 (arXiv:2312.04927). A row teaches `queries` lookups, where the tasks with one
    question teach one.
    """
    v, needles = batch.vocabulary, batch.data.queries
    batch.check("multi_query", 4 * needles + 1, keys=needles)
    noise, names, draw, where = jax.random.split(key, 4)
    keys = v.first_key + distinct(names, batch.rows, batch.data.keys, needles)
    pairs = jnp.concatenate([keys[:, :, None], values_of(draw, batch, keys, 1)], axis=2)
    size = batch.length - 1 - 2 * needles
    # The slots are in random order, so the order of the questions is not that of the text.
    hidden = haystack(noise, batch, size, pairs, distinct(where, batch.rows, size - needles, needles))
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
    batch.check("multi_value", 3 * answers + 2, values=answers)
    noise, name, draw, where = jax.random.split(key, 4)
    named = jax.random.randint(name, (batch.rows, 1), v.first_key, v.first_value, jnp.int32)
    values = v.first_value + distinct(draw, batch.rows, batch.data.values, answers)
    size = batch.length - 2 - answers
    slots = jnp.sort(distinct(where, batch.rows, size - answers, answers), axis=1)
    pairs = jnp.stack([jnp.broadcast_to(named, values.shape), values], axis=2)
    hidden = haystack(noise, batch, size, pairs, slots)
    return answered("multi_value", hidden, named, values, hidden.starts + 1)


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
    batch.check("variable_tracking", 3 * count + links + 2, keys=count, values=chains)
    noise, names, draw, where, mixed = jax.random.split(key, 5)
    variables = v.first_key + distinct(names, batch.rows, batch.data.keys, count).reshape(batch.rows, chains, links)
    values = v.first_value + distinct(draw, batch.rows, batch.data.values, chains)
    sources = jnp.concatenate([values[:, :, None], variables[:, :, :-1]], axis=2)
    statements = jnp.stack([variables, jnp.full_like(variables, EQUALS), sources], axis=3).reshape(batch.rows, count, 3)
    size = batch.length - 2 - links
    free = jnp.sort(distinct(where, batch.rows, size - 2 * count, count), axis=1)
    # Which of the sorted slots are each chain's: a random share, ascending within the chain.
    ranks = jnp.sort(distinct(mixed, batch.rows, count, count).reshape(batch.rows, chains, links), axis=2)
    slots = jnp.take_along_axis(free, ranks.reshape(batch.rows, count), axis=1)
    hidden = haystack(noise, batch, size, statements, slots)
    return answered("variable_tracking", hidden, values[:, :1], variables[:, 0], hidden.starts[:, :links])


class Haystack(NamedTuple):
    """A context [B, C] and where each of its pieces starts, [B, n]: positions of the context, from 0."""

    context: Int32[Array, "B C"]
    starts: Int32[Array, "B n"]


def distinct(
    key: PRNGKeyArray, rows: int, among: int, count: int, at: Float[Array, "B"] | None = None
) -> Int32[Array, "{rows} {count}"]:
    """`count` different numbers of range(among) a row, uniformly and in random order.

    They are slots of pieces, or ids from the first of their kind on. With `at`, number 0 of a row is round(at · (among - 1)).
    """
    order = jax.random.uniform(key, (rows, among))
    if at is not None:
        chosen = jnp.round(at * (among - 1)).astype(jnp.int32)
        order = jnp.where(jnp.arange(among)[None] == chosen[:, None], -1.0, order)
    return jnp.argsort(order, axis=1)[:, :count].astype(jnp.int32)


def haystack(
    key: PRNGKeyArray, batch: Batch, size: int, needles: Int32[Array, "B n w"], slots: Int32[Array, "B n"]
) -> Haystack:
    """`size` fillers with the needles written over them, each at its slot plus w - 1 tokens for every needle before it.

    Fillers are uniform and independent, so that they cannot be predicted. RULER's are sentences.
    """
    v, width = batch.vocabulary, needles.shape[2]
    fillers = jax.random.randint(key, (batch.rows, size), v.first_filler, v.first_key, jnp.int32)
    before = (slots[:, None, :] < slots[:, :, None]).sum(axis=2, dtype=jnp.int32)
    starts = slots + (width - 1) * before
    positions = starts[:, :, None] + jnp.arange(width, dtype=jnp.int32)[None, None]
    rows = jnp.arange(batch.rows, dtype=jnp.int32)[:, None, None]
    return Haystack(fillers.at[rows, positions].set(needles), starts)


def values_of(key: PRNGKeyArray, batch: Batch, keys: Int32[Array, "B n"], symbols: int) -> Int32[Array, "B n {symbols}"]:
    """What is looked up by each key: uniform and independent, among the values of the key if keys have their own."""
    v, per_key, shape = batch.vocabulary, batch.data.values_per_key, (*keys.shape, symbols)
    if not per_key:
        return shared_values(key, v, shape)
    first = v.first_keyed_value + (keys - v.first_key) * per_key
    return first[:, :, None] + jax.random.randint(key, shape, 0, per_key, jnp.int32)


def column(token: int, batch: int) -> Int32[Array, "{batch} 1"]:
    """One token for every row."""
    return jnp.full((batch, 1), token, jnp.int32)


def answered(
    task: Task, hidden: Haystack, question: Int32[Array, "B Q"], answer: Int32[Array, "B A"], evidence: Int32[Array, "B A"]
) -> Sample:
    """Rows [task, context, ASK, question, answer]: every token of the answer is a target.

    `evidence` are positions in the context from which the tokens of the answer are read.
    """
    rows, count = answer.shape
    parts = [column(task_id(task), rows), hidden.context, column(ASK, rows), question, answer]
    tokens = jnp.concatenate(parts, axis=1)
    whole = jnp.pad(evidence + 1, ((0, 0), (tokens.shape[1] - 1 - count, 0)), constant_values=-1)
    return Sample(tokens, (whole >= 0).astype(jnp.float32), whole)
