"""The points of the curves of text, and of text that is mixed with recall."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from leadline.experiments.config.measure import Measure, SinkRate
from leadline.experiments.config.measured import Measured
from leadline.experiments.data.recall import MixedSource
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Evaluation, Statistics, as_rows, in_batches
from leadline.experiments.measure.kinds.curve import Curve, answers
from leadline.experiments.measure.kinds.vocabulary import bits_per_byte, target_sizes
from leadline.experiments.measure.layers import layer_statistics, sink_statistics
from leadline.experiments.measure.perplexity import evaluated, mean_loss
from leadline.experiments.measure.sinks import mass_on
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace


class TextBatches(NamedTuple):
    """Held-out text: ids [C, B, T + 1] of the training length and the bytes [C, B, T] of their targets, which are NaN where
    the tokenizer loses text; ids [C, B, S + 1] of measure.sink.length."""

    tokens: Any
    sizes: Any
    sinks: Any


class TextCurve(Curve):
    """Loss, bits per byte and layer statistics of windows of the training length; sinks of windows of measure.sink.length."""

    def batches(self, source: TextSource, arm: Measured) -> TextBatches:
        windows = source.text.held_out(arm.data.length, arm.measure.windows).windows
        sizes = target_sizes(source, windows)
        sinks = source.text.held_out(arm.measure.sink.length, arm.measure.windows).windows
        return TextBatches(*in_batches((windows, sizes.astype(np.float32))), in_batches(sinks))

    def lengths(self, arm: Measured) -> frozenset[int]:
        return frozenset({arm.data.length, arm.measure.sink.length})

    def evaluated(self, source: TextSource, arm: Measured) -> Point:
        texts = {length: source.text.held_out(length, arm.measure.windows) for length in self.lengths(arm)}
        return {key: value for length, text in texts.items() for key, value in evaluated(text, length=length).items()}

    def groups(self, source: TextSource, arm: Measured) -> Int[np.ndarray, " W"] | None:
        return source.text.held_out(arm.data.length, arm.measure.windows).groups_if_enough

    def domains(self, source: TextSource, arm: Measured) -> dict[str, Int[np.ndarray, "C B S_and_1"]]:
        texts = source.by_domain(arm.measure.sink.length, arm.measure.windows)
        return {domain: in_batches(text.windows) for domain, text in texts.items()}

    def statistics(self, evaluate: Evaluation, batches: TextBatches, shared: Array, measure: Measure) -> Statistics:
        def sinks(trace: LayerTrace, tokens: Int[Array, "B S"]) -> Statistics:
            return text_sinks(trace, tokens, shared, measure.sink)

        def layers(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
            statistics = layer_statistics(trace)
            return statistics | sinks(trace, tokens) if batches.sinks.shape == batches.tokens.shape else statistics

        losses, statistics = evaluate(batches.tokens, of_layer=layers)
        if batches.sinks.shape != batches.tokens.shape:
            statistics |= evaluate(batches.sinks, of_layer=sinks)[1]
        starts = document_starts(as_rows(batches.sinks)[:, :-1], shared)
        numbers = {
            reading("bits_per_byte"): bits_per_byte(losses.sum(), as_rows(batches.sizes).sum()),
            reading("document_start_share"): jnp.mean(starts, dtype=jnp.float32),
        }
        return statistics | numbers | self.losses(losses, as_rows(batches.tokens), shared)


def text_sinks(trace: LayerTrace, tokens: Int[Array, "B S"], eos: Int[Array, ""] | np.ndarray, sink: SinkRate) -> Statistics:
    """The sinks of one layer, and the attention to the tokens that begin a document."""
    starts = mass_on(trace.attention.received, document_starts(tokens, eos))
    return sink_statistics(trace, sink) | {reading("document_start_mass"): starts}


def document_starts(tokens: Int[Array, "B S"], eos: Int[Array, ""] | np.ndarray) -> Bool[Array, "B S"]:
    """The tokens that begin a document, and the first one of each row."""
    return jnp.pad(tokens[:, :-1] == eos, [(0, 0), (1, 0)], constant_values=True)


class MixedBatches(NamedTuple):
    """Held-out text, ids [C, B, T + 1], and as many rows of recall."""

    tokens: Any
    recall: Sample


class MixedCurve(Curve):
    """The loss on text, and loss and accuracy on the answers of recall."""

    def batches(self, source: MixedSource, arm: Measured) -> MixedBatches:
        windows = source.text.held_out(arm.data.length, arm.measure.windows).windows
        return MixedBatches(in_batches(windows), in_batches(source.held_out_recall(arm.data.length, arm.measure.windows)))

    def groups(self, source: MixedSource, arm: Measured) -> Int[np.ndarray, " W"] | None:
        return source.text.held_out(arm.data.length, arm.measure.windows).groups_if_enough

    def evaluated(self, source: MixedSource, arm: Measured) -> Point:
        return evaluated(source.text.held_out(arm.data.length, arm.measure.windows), length=arm.data.length)

    def statistics(self, evaluate: Evaluation, batches: MixedBatches, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        losses, _ = evaluate(batches.tokens)
        hit, answer_losses, weights = answers(evaluate, batches.recall)
        recall = {
            reading("recall_loss"): mean_loss(answer_losses, weights),
            reading("recall_accuracy"): jnp.mean(hit, where=weights > 0, dtype=jnp.float32),
        }
        return recall | self.losses(losses, as_rows(batches.tokens), shared)
