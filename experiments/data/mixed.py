"""Text and associative recall in one batch: what a model knows of language, and how far back it finds a thing."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt32

from experiments.config.data import MixedData
from experiments.data.batches import first_tokens
from experiments.data.held_out import HeldOut
from experiments.data.mixture import WeightedText
from experiments.data.recall import NEVER, Recall, sample
from experiments.data.sample import HELD_OUT_SEED, Sample
from tokenization.byte import ByteTokenizer


class MixedInputs(NamedTuple):
    """What the host hands to a step: windows of text, and (seed, step), from which the device draws the recall."""

    text: Array | np.ndarray  # int32 [B / 2, T + 1]
    key: Array | np.ndarray  # uint32 [2]


def recall_task(data: MixedData) -> Recall:
    """The task, its ids behind those of the tokenizer."""
    return Recall(data.keys, data.values, ByteTokenizer().vocabulary_size)


@dataclass(frozen=True)
class MixedSource:
    """The first half of a batch is text, of which every target counts; the second recall, of which the answers count.

    The halves have equal shares in the loss: it is the mean of the text's mean and the answers' mean. By tokens text would
    have nine tenths of it, and recall would be learned late or not at all.
    """

    data: MixedData
    text: WeightedText

    @property
    def vocabulary(self) -> int:
        return ByteTokenizer().vocabulary_size + recall_task(self.data).size

    @property
    def shared(self) -> None:
        return None

    @property
    def tokenizer(self) -> ByteTokenizer:
        return ByteTokenizer()

    @property
    def described(self) -> dict[str, Any]:
        corpus = self.data.corpus
        return {
            "name": "recall and text",
            "corpus": corpus if isinstance(corpus, str) else list(corpus),
            "digest": self.text.digest,
            "tokenizer": self.tokenizer.name,
            "tokenizer_digest": self.tokenizer.digest(),
            "train_tokens": self.text.train_tokens,
            "held_out_tokens": self.text.held_out_tokens,
        }

    def inputs(self, seed: int, step: int, batch: int) -> MixedInputs:
        first = first_tokens("absent", ByteTokenizer())
        text = self.text.batch(seed, step, batch // 2, self.data.length, first)
        return MixedInputs(text, np.array([seed, step], np.uint32))

    def sample(self, inputs: MixedInputs, shared: None, batch: int) -> Sample:  # noqa: ARG002
        recall = _recall(jnp.asarray(inputs.key), recall_task(self.data), batch - batch // 2, self.data.length)
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

    def held_out_text(self, length: int, count_tokens: int) -> Int32[np.ndarray, "W T"]:
        """Non-overlapping windows [count // length, length + 1] of text, the same for every arm and seed."""
        return self.text.held_out(length, count_tokens, first_tokens("absent", ByteTokenizer()))

    def scored(self, length: int, count_tokens: int) -> HeldOut:
        """Those windows with the document of each target."""
        tokenizer = ByteTokenizer()
        first = first_tokens("absent", tokenizer)
        return self.text.scored(length, count_tokens, first, tokenizer.specials.eos)

    def held_out_recall(self, length: int, rows: int) -> Sample:
        """Rows [rows, length + 1] of recall that no training seed draws, the same for every arm and seed; on the host."""
        key = jnp.array([HELD_OUT_SEED, 0], jnp.uint32)
        drawn = jax.jit(_recall, static_argnums=(1, 2, 3))(key, recall_task(self.data), rows, length)
        return jax.device_get(drawn)


def _recall(seed_and_step: UInt32[Array, "2"], task: Recall, rows: int, length: int) -> Sample:
    key = jax.random.fold_in(jax.random.key(seed_and_step[0]), seed_and_step[1])
    return sample(key, task, rows, length)
