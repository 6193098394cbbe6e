"""Associative recall at every distance: which value came with this key, a known number of tokens ago?

A row is a marker and then slots of two tokens, a key and one of its values. The first slot of a key defines which of them
holds in this row, drawn anew in every row; if the key comes again, which it does once at most, the slot asks for it. So an
answer is nowhere in the row but at one known distance, and none can be read off a nearer copy.

This is multi-query associative recall (Arora et al. 2023, "Zoology", arXiv:2312.04927) with one question a key and distances
from 1 to the whole row. Every key has values of its own, so that the token to be found names its key: one head that compares
contents over a distance is enough, which is what B_m is about, and it is learned in a few hundred steps. With values that the
keys share, a layer before it has to join the two tokens, and a small model needs many times as long to begin to.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from experiments.data.sample import Sample

# Slots that found no free definition draw again; the fourth round places less than a tenth of what the first one does.
ROUNDS = 4
NEVER = -1


class Recall(NamedTuple):
    """The ids of the task: keys from `first`, the values of each key behind them, the marker last."""

    keys: int
    values: int  # of each key: chance is one in so many
    first: int = 0

    @property
    def marker(self) -> int:
        return self.first + self.keys * (1 + self.values)

    @property
    def size(self) -> int:
        """How many ids the task has."""
        return self.keys * (1 + self.values) + 1


def sample(key: PRNGKeyArray, task: Recall, batch: int, length: int) -> Sample:
    """Rows [batch, length + 1]: the marker, then length / 2 slots. The weights are 1 where the target is an answer, else 0.

    The query of an answer is the position t of the asking key; the evidence is the position of the value where it was
    defined, so that t - evidence = 2 · slots - 1 is odd.

    Raises ValueError for a length that is odd or below 4, or one with more slots than there are keys.
    """
    slots = length // 2
    if length % 2 or length < 4:
        raise ValueError(f"a row of recall has pairs of tokens behind its marker: an even length of 4 or more, not {length}")
    if slots > task.keys:
        raise ValueError(f"{slots} slots of a row of {length} may need as many keys, and there are {task.keys}")
    of_sources, of_keys, of_values = jax.random.split(key, 3)
    source = sources(of_sources, batch, slots)
    defined = jnp.where(source == NEVER, jnp.arange(slots)[None], source)
    shuffled = jnp.argsort(jax.random.uniform(of_keys, (batch, task.keys)), axis=1)[:, :slots].astype(jnp.int32)
    drawn = jax.random.randint(of_values, (batch, slots), 0, task.values)
    keys = task.first + jnp.take_along_axis(shuffled, defined, axis=1)
    chosen = jnp.take_along_axis(drawn, defined, axis=1)
    values = task.first + task.keys + (keys - task.first) * task.values + chosen
    marker = jnp.full((batch, 1), task.marker, jnp.int32)
    tokens = jnp.concatenate([marker, jnp.stack([keys, values], axis=2).reshape(batch, length)], axis=1)
    asked = source != NEVER
    return Sample(
        tokens=tokens,
        weights=_at_keys(asked.astype(jnp.float32), 0.0),
        evidence=_at_keys(jnp.where(asked, 2 * source + 2, NEVER), NEVER),
    )


def sources(key: PRNGKeyArray, batch: int, slots: int) -> Int32[Array, "{batch} {slots}"]:
    """For every slot the earlier slot whose key it asks for, or NEVER where it defines one; no slot is a source twice.

    Half of the slots, by a coin, want to ask. Each draws a distance; where that leads to a definition that nobody else has
    taken it asks for it, and otherwise it draws again, ROUNDS times in all, and defines a key in the end. Of several that draw
    the same definition the last one gets it, because far answers are the rarer ones.
    """
    of_coin, of_rounds = jax.random.split(key)
    asking = jax.random.bernoulli(of_coin, 0.5, (batch, slots))
    place = jnp.arange(slots, dtype=jnp.int32)[None]
    row = jnp.arange(batch)[:, None]
    source = jnp.full((batch, slots), NEVER, jnp.int32)
    taken = asking  # what asks, and later what was asked for, is no free definition
    for round_key in jax.random.split(of_rounds, ROUNDS):
        target = place - log_uniform(round_key, batch, slots)
        inside = jnp.maximum(target, 0)
        free = asking & (source == NEVER) & (target >= 0) & ~taken[row, inside]
        last = jnp.full((batch, slots), NEVER, jnp.int32).at[row, inside].max(jnp.where(free, place, NEVER))
        won = free & (last[row, inside] == place)
        source = jnp.where(won, target, source)
        taken = taken | (last != NEVER)
    return source


def log_uniform(key: PRNGKeyArray, batch: int, slots: int) -> Int32[Array, "{batch} {slots}"]:
    """Distances in slots, 1 to slots - 1: P(n) = ln((n + 1) / n) / ln(slots).

    Log-uniform and not uniform: the reaches of the bases lie octaves apart, and each octave gets as many answers.
    """
    uniform = jax.random.uniform(key, (batch, slots))
    return jnp.clip(jnp.exp(uniform * jnp.log(jnp.float32(slots))).astype(jnp.int32), 1, slots - 1)


def _at_keys(of_slots: Float[Array, "B S"] | Int32[Array, "B S"], elsewhere: int | float) -> Array:
    """A value a slot at the position of its key, `elsewhere` at the others: [B, 2 S]; key s stands at 2 s + 1."""
    other = jnp.full_like(of_slots, elsewhere)
    return jnp.stack([other, of_slots], axis=2).reshape(of_slots.shape[0], -1)
