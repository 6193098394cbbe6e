"""The points of the curves, one class for each kind of data."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from leadline.experiments.config.data import (
    BackcopyData,
    Data,
    GridData,
    MixedData,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.measure import START, Measure, SinkRate
from leadline.experiments.config.measured import Measured
from leadline.experiments.data.backcopy import Backcopy, BackcopySource, bigram_queries, oracle_loss, trigger_queries
from leadline.experiments.data.grid import GridSource
from leadline.experiments.data.recall import MixedSource
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.data.transduction import TransductionSource
from leadline.experiments.measure.evaluate import Evaluation, Statistics, TablesByLength, as_rows, evaluation, in_batches
from leadline.experiments.measure.kinds.plugin import plugged_statistics
from leadline.experiments.measure.kinds.retrieval import hits, right_answers
from leadline.experiments.measure.kinds.transduction import cross_statistics, without_end
from leadline.experiments.measure.kinds.vocabulary import bits_per_byte, target_sizes
from leadline.experiments.measure.layers import layer_statistics, sink_statistics
from leadline.experiments.measure.perplexity import evaluated, mean_loss
from leadline.experiments.measure.sinks import first_norm_ratio, mass_on, mean_mass
from leadline.experiments.records.measurement import Point, reading
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.embedding import token_losses


class Curve(ABC):
    """A point of the curves of one kind of data, and the numbers that a record ends with."""

    @abstractmethod
    def batches(self, source: Any, arm: Measured) -> Any:
        """The held-out arrays [C, B, …] that a point is measured on, the same for every seed.

        Their `tokens` are the ids [C, B, T + 1] of whole sequences of the training length.
        """

    def lengths(self, arm: Measured) -> frozenset[int]:
        """The tokens of their texts, among them the training length."""
        return frozenset({arm.data.length})

    def evaluated(self, source: Any, arm: Measured) -> Point:  # noqa: ARG002
        """How much they are: `windows`, and of text `documents`."""
        return {reading("windows", length=arm.data.length): np.asarray(float(arm.measure.windows))}

    @abstractmethod
    def statistics(self, evaluate: Evaluation, batches: Any, shared: Any, measure: Measure) -> Statistics:
        """A point without what is plugged in, inside a compiled program.

        Args:
            evaluate: `leadline.experiments.measure.evaluate.evaluation` of the model.
            batches: the held-out arrays.
            shared: the arrays of the task.
            measure: what is measured.
        """

    def losses(self, losses: Float[Array, "W T"], tokens: Int[Array, "W T_and_1"], shared: Any) -> Statistics:  # noqa: ARG002
        """The mean losses that this kind of data tells apart, from the loss [nats] of every target."""
        return {reading("loss"): mean_loss(losses)}

    def groups(self, source: Any, arm: Measured) -> Int[np.ndarray, " W"] | None:  # noqa: ARG002
        """The group of held-out documents of each window of `batches`; None for a task, or where documents are too few."""
        return None

    def domains(self, source: Any, arm: Measured) -> dict[str, Int[np.ndarray, "C B S_and_1"]]:  # noqa: ARG002
        """Windows of measure.sink.length of each domain of the held-out text, in batches; none for a task."""
        return {}

    def point(
        self, params: Decoder, tables: TablesByLength, batches: Any, shared: Any, model: DecoderConfig, measure: Measure
    ) -> Statistics:
        """A point, inside a compiled program; `tables` are those of all `lengths`."""
        statistics = self.statistics(evaluation(params, tables, model), batches, shared, measure)
        tokens = jnp.asarray(batches.tokens)
        return statistics | plugged_statistics(measure.functions, params, tables[tokens.shape[-1] - 1], tokens, model)


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


class BackcopyCurve(Curve):
    """The loss on either kind of token; attention to BOS where nothing is to be copied, and the norm of its value."""

    def batches(self, source: BackcopySource, arm: Measured) -> Sample:
        source = replace(source, data=arm.data)  # pyright: ignore[reportArgumentType]  # arms may differ in BOS
        return in_batches(Sample(source.held_out(arm.measure.windows)))

    def losses(self, losses: Float[Array, "W T"], tokens: Int[Array, "W T_and_1"], shared: Backcopy) -> Statistics:
        """On all targets, on copies, on what is drawn from the bigram, and that less the least possible loss [nats]."""
        copied, drawn = trigger_queries(tokens[:, :-1], shared), bigram_queries(tokens[:, :-1], shared)
        least = jnp.where(drawn, oracle_loss(tokens, shared), 0)
        bigram = mean_loss(losses, drawn)
        return {
            reading("loss"): mean_loss(losses),
            reading("backcopy_loss"): mean_loss(losses, copied),
            reading("bigram_loss"): bigram,
            reading("bigram_excess"): bigram - mean_loss(least, drawn),
        }

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: Backcopy, measure: Measure) -> Statistics:
        def layers(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
            resting = bigram_queries(tokens, shared) & (jnp.arange(tokens.shape[1]) >= START)[None]
            return layer_statistics(trace) | sink_statistics(trace, measure.sink) | {
                reading("bos_mass"): mean_mass(trace.attention.first, resting),
                reading("bos_value_ratio"): first_norm_ratio(trace.value_norm, start=START),
            }  # fmt: skip

        losses, statistics = evaluate(batches.tokens, of_layer=layers)
        return statistics | self.losses(losses, as_rows(batches.tokens), shared)


class TaskCurve(Curve):
    """A curve of a task that draws its own held-out rows."""

    def batches(self, source: RetrievalSource | TransductionSource | GridSource, arm: Measured) -> Sample:
        return in_batches(source.held_out(arm.measure.windows))


class RetrievalCurve(TaskCurve):
    """Loss on all targets of the mixture, and accuracy of whole answers."""

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        hit, losses, weights = _answers(evaluate, batches)
        return {
            reading("loss"): mean_loss(losses, weights),
            reading("accuracy"): jnp.mean(right_answers(hit, weights), dtype=jnp.float32),
        }


class TransductionCurve(TaskCurve):
    """Loss and accuracy of answers; for an encoder–decoder, also the cross-attention to the ends of the source."""

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        hit, losses, weights = _answers(evaluate, batches)
        # After END nothing is predicted: as padding it is no query, and no other query sees it.
        _, layers = evaluate(without_end(jnp.asarray(batches.tokens)), of_layer=cross_statistics)
        return layers | {
            reading("loss"): mean_loss(losses, weights),
            reading("accuracy"): jnp.mean(right_answers(hit, weights), dtype=jnp.float32),
        }


class GridCurve(TaskCurve):
    """Loss and accuracy of the answers, on grids of the training sizes."""

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        hit, losses, weights = _answers(evaluate, batches)
        return {
            reading("loss"): mean_loss(losses, weights),
            reading("accuracy"): jnp.mean(hit, where=weights > 0, dtype=jnp.float32),
        }


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
        hit, answer_losses, weights = _answers(evaluate, batches.recall)
        recall = {
            reading("recall_loss"): mean_loss(answer_losses, weights),
            reading("recall_accuracy"): jnp.mean(hit, where=weights > 0, dtype=jnp.float32),
        }
        return recall | self.losses(losses, as_rows(batches.tokens), shared)


def curve_of(data: Data) -> Curve:
    """The curve of a kind of data."""
    kinds = {
        BackcopyData: BackcopyCurve,
        RetrievalData: RetrievalCurve,
        MixedData: MixedCurve,
        TextData: TextCurve,
        TransductionData: TransductionCurve,
        GridData: GridCurve,
    }
    return kinds[type(data)]()


def _answers(evaluate: Evaluation, batches: Sample) -> tuple[Array, Float[Array, "W T"], Float[Array, "W T"]]:
    """Returns three arrays: whether each target is hit, its loss [nats], and its weight."""
    (hit, losses), _ = evaluate(
        batches.tokens, of_target=lambda scores, targets: (hits(scores, targets), token_losses(scores, targets))
    )
    return hit, losses, as_rows(jnp.asarray(batches.weights))
