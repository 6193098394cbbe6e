"""Associative recall at every distance, and beside text: which value came with this key, a known number of tokens ago?

A row is a marker followed by slots of two tokens, a key and one of its values. The first slot of a key defines its value in
this row, at random. If the key comes again, at most once, the slot asks for that value. So the answer occurs once before the
question, at a known distance.

This is multi-query associative recall (Arora et al. 2023, "Zoology", arXiv:2312.04927) with one question per key and distances
from 1 to the whole row. Every key has its own values, so a value identifies its key: one head that compares contents over a
distance is enough, which is what B_m bounds, and it is learned in a few hundred steps. With values that all keys share, an
earlier layer has to join the two tokens, which a small model learns many times later.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, PRNGKeyArray

from leadline.experiments.config.data import MixedData
from leadline.experiments.data.sample import Sample, held_out_key, step_inputs, step_key
from leadline.experiments.data.text.source import WeightedText, listed
from leadline.tokenization.byte import ByteTokenizer

# Slots that drew no free definition draw again; the fourth round places less than a tenth of what the first one does.
ROUNDS = 4
NEVER = -1


class Recall(NamedTuple):
    """The ids of the task: the keys from `first` on, then the values of each key, then the marker."""

    keys: int
    values: int  # of each key; the accuracy of chance is 1 / values
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

    The query of an answer is the position t of the asking key. The evidence is the position of the value in the defining slot,
    n slots earlier, so that t - evidence = 2n - 1.

    Raises:
        ValueError: for a length that is odd or below 4, or has more slots than there are keys.
    """
    slots = length // 2
    if length % 2 or length < 4:
        raise ValueError(f"a row of recall has pairs of tokens after its marker: an even length of 4 or more, not {length}")
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
    asks = source != NEVER
    return Sample(
        tokens=tokens,
        weights=_at_keys(asks.astype(jnp.float32), 0.0),
        evidence=_at_keys(jnp.where(asks, 2 * source + 2, NEVER), NEVER),
    )


def sources(key: PRNGKeyArray, batch: int, slots: int) -> Int32[Array, "{batch} {slots}"]:
    """For every slot the earlier slot whose key it asks for, or NEVER where it defines a key. No slot is a source twice.

    Half of the slots, at random, are to ask. Each draws a distance n from 1 to slots - 1, with
        P(n) = ln((n + 1) / n) / ln(slots),
    so that every octave of distance has as many answers: the reaches of RoPE bases lie octaves apart. If that leads to a
    definition that no other slot has taken, the slot asks for it; otherwise it draws again, ROUNDS times in all, and then
    defines a key itself. Of several slots that draw the same definition the last gets it, because far answers are rarer.
    """
    of_coin, of_rounds = jax.random.split(key)
    asking = jax.random.bernoulli(of_coin, 0.5, (batch, slots))
    place = jnp.arange(slots, dtype=jnp.int32)[None]
    row = jnp.arange(batch)[:, None]
    source = jnp.full((batch, slots), NEVER, jnp.int32)
    taken = asking  # slots that ask, and definitions that have been asked for
    for round_key in jax.random.split(of_rounds, ROUNDS):
        uniform = jax.random.uniform(round_key, (batch, slots))
        distance = jnp.clip(jnp.exp(uniform * jnp.log(jnp.float32(slots))).astype(jnp.int32), 1, slots - 1)
        target = place - distance
        inside = jnp.maximum(target, 0)
        free = asking & (source == NEVER) & (target >= 0) & ~taken[row, inside]
        last = jnp.full((batch, slots), NEVER, jnp.int32).at[row, inside].max(jnp.where(free, place, NEVER))
        won = free & (last[row, inside] == place)
        source = jnp.where(won, target, source)
        taken = taken | (last != NEVER)
    return source


def _at_keys(of_slots: Float[Array, "B S"] | Int32[Array, "B S"], elsewhere: int | float) -> Array:
    """The value of each slot s at the position of its key, 2s + 1, and `elsewhere` at the other positions: [B, 2 S]."""
    other = jnp.full_like(of_slots, elsewhere)
    return jnp.stack([other, of_slots], axis=2).reshape(of_slots.shape[0], -1)


class MixedInputs(NamedTuple):
    """What the host hands to a step: windows of text, and (seed, step), from which the device draws the recall."""

    text: Array | np.ndarray  # int32 [B / 2, T + 1]
    key: Array | np.ndarray  # uint32 [2]


def recall_task(data: MixedData) -> Recall:
    """The task, its ids after those of the tokenizer."""
    return Recall(data.keys, data.values, ByteTokenizer().vocabulary_size)


@dataclass(frozen=True)
class MixedSource:
    """The first half of a batch is text, where every target counts; the second is recall, where only the answers count.

    The loss is the mean of the mean over text and the mean over answers. Weighted by tokens, text would be nine tenths of the
    loss, and recall would be learned late or not at all.
    """

    data: MixedData
    vocabulary: int
    text: WeightedText
    shared: None = None
    tokenizer: ByteTokenizer = field(default_factory=ByteTokenizer)

    @property
    def described(self) -> dict[str, Any]:
        return self.text.described("recall and text", self.tokenizer) | {"corpus": listed(self.data.corpus)}

    def inputs(self, seed: int, step: int, batch: int) -> MixedInputs:
        text = self.text.batch(seed, step, batch // 2, self.data.length)
        return MixedInputs(text, step_inputs(seed, step))

    def sample(self, inputs: MixedInputs, shared: None, batch: int) -> Sample:  # noqa: ARG002
        recall = sample(step_key(jnp.asarray(inputs.key)), recall_task(self.data), batch - batch // 2, self.data.length)
        if recall.weights is None or recall.evidence is None:
            raise ValueError("a sample of recall has weights and evidence")
        of_text = jnp.full((batch // 2, self.data.length), 1 / max(1, batch // 2 * self.data.length))
        of_recall = recall.weights / jnp.maximum(jnp.sum(recall.weights), 1.0)
        nowhere = jnp.full((batch // 2, self.data.length), NEVER, jnp.int32)
        return Sample(
            tokens=jnp.concatenate([jnp.asarray(inputs.text), recall.tokens]),
            weights=jnp.concatenate([of_text, of_recall]),
            evidence=jnp.concatenate([nowhere, recall.evidence]),
        )

    def held_out_recall(self, length: int, rows: int) -> Sample:
        """Rows [rows, length + 1] of recall, drawn with a key of their own, the same for every arm and seed; on the host."""
        draw = jax.jit(sample, static_argnums=(1, 2, 3))
        return jax.device_get(draw(held_out_key(0), recall_task(self.data), rows, length))
