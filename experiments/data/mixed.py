"""Text and associative recall in one batch: a model learns language, and to look up tokens over a known distance."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from leadline.experiments.config.data import MixedData
from leadline.experiments.data.recall import NEVER, Recall, sample
from leadline.experiments.data.sample import HELD_OUT_SEED, Sample, step_inputs, step_key
from leadline.experiments.data.text.held_out import HeldOut
from leadline.experiments.data.text.mixture import WeightedText
from leadline.experiments.data.text.source import described_text, listed
from leadline.tokenization.byte import ByteTokenizer


class MixedInputs(NamedTuple):
    """What the host hands to a step: windows of text, and (seed, step), from which the device draws the recall."""

    text: Array | np.ndarray  # int32 [B / 2, T + 1]
    key: Array | np.ndarray  # uint32 [2]


def recall_task(data: MixedData) -> Recall:
    """The task, its ids behind those of the tokenizer."""
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
        return described_text("recall and text", self.text, self.tokenizer) | {"corpus": listed(self.data.corpus)}

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

    def held_out(self, length: int, windows: int) -> HeldOut:
        """Windows of text drawn from all held-out documents, the same for every arm and seed (`held_out_windows`)."""
        return self.text.held_out(length, windows)

    def held_out_recall(self, length: int, rows: int) -> Sample:
        """Rows [rows, length + 1] of recall that no training seed draws, the same for every arm and seed; on the host."""
        key = step_key(jnp.asarray(step_inputs(HELD_OUT_SEED, 0)))
        return jax.device_get(jax.jit(sample, static_argnums=(1, 2, 3))(key, recall_task(self.data), rows, length))
