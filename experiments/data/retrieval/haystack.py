"""Needles in a haystack: pieces of equal width at random places of a row of fillers, none over another.

A context of C tokens with n pieces of width w is a sequence of C - n (w - 1) slots, each of which holds one filler or one
piece. Every choice of n slots is equally likely. RULER instead draws again until a sample fits, which may never end.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.data.retrieval.vocabulary import Batch, Task, Vocabulary, task_id
from leadline.experiments.data.sample import Sample


@dataclass(frozen=True)
class Haystack:
    """A context [B, C] and where each of its pieces starts, [B, n]: positions of the context, from 0."""

    context: Int32[Array, "B C"]
    starts: Int32[Array, "B n"]


def place(
    key: PRNGKeyArray, batch: int, slots: int, pieces: int, at: Float[Array, "B"] | None = None
) -> Int32[Array, "{batch} {pieces}"]:
    """Different slots for the pieces, uniformly; with `at`, piece 0 is at slot round(at · (slots - 1))."""
    order = jax.random.uniform(key, (batch, slots))
    if at is not None:
        chosen = jnp.round(at * (slots - 1)).astype(jnp.int32)
        order = jnp.where(jnp.arange(slots)[None] == chosen[:, None], -1.0, order)
    return jnp.argsort(order, axis=1)[:, :pieces].astype(jnp.int32)


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


def distinct(key: PRNGKeyArray, batch: int, first: int, among: int, count: int) -> Int32[Array, "{batch} {count}"]:
    """`count` different ids of first … first + among - 1 a row, uniformly and in random order."""
    return first + place(key, batch, among, count)


def values_of(
    key: PRNGKeyArray, vocabulary: Vocabulary, keys: Int32[Array, "B n"], symbols: int
) -> Int32[Array, "B n {symbols}"]:
    """What is looked up by each key: uniform and independent, among the values of the key if keys have their own."""
    shape = (*keys.shape, symbols)
    if vocabulary.values_per_key:
        first = vocabulary.first_keyed_value + (keys - vocabulary.first_key) * vocabulary.values_per_key
        return first[:, :, None] + jax.random.randint(key, shape, 0, vocabulary.values_per_key, jnp.int32)
    return shared_values(key, vocabulary, shape)


def shared_values(key: PRNGKeyArray, vocabulary: Vocabulary, shape: tuple[int, ...]) -> Int32[Array, "..."]:
    """Values that belong to no key, uniform and independent."""
    return jax.random.randint(key, shape, vocabulary.first_value, vocabulary.first_keyed_value, jnp.int32)


def column(token: int, batch: int) -> Int32[Array, "{batch} 1"]:
    """One token for every row."""
    return jnp.full((batch, 1), token, jnp.int32)


def answered(
    task: Task,
    hidden: Haystack,
    question: Int32[Array, "B Q"],
    answer: Int32[Array, "B A"],
    evidence: Int32[Array, "B A"],
) -> Sample:
    """Rows [task, context, question, answer]: every token of the answer is a target.

    `evidence` are positions in the context from which the tokens of the answer are read.
    """
    batch, count = answer.shape
    tokens = jnp.concatenate([column(task_id(task), batch), hidden.context, question, answer], axis=1)
    rest = tokens.shape[1] - 1 - count
    return Sample(
        tokens=tokens,
        weights=jnp.broadcast_to(jnp.arange(rest + count) >= rest, (batch, rest + count)).astype(jnp.float32),
        evidence=jnp.concatenate([jnp.full((batch, rest), -1, jnp.int32), evidence + 1], axis=1),
    )
