"""The points of the curves of generated tasks, and which curve each kind of data has."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.experiments.config.data import (
    BackcopyData,
    Data,
    GridData,
    MixedData,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.measure import START, Measure
from leadline.experiments.config.measured import Measured
from leadline.experiments.data.backcopy import Backcopy, BackcopySource, bigram_queries, oracle_loss, trigger_queries
from leadline.experiments.data.grid import GridSource
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.sample import Sample
from leadline.experiments.data.transduction import TransductionSource
from leadline.experiments.measure.evaluate import Evaluation, Statistics, as_rows, in_batches
from leadline.experiments.measure.kinds.curve import Curve, answers
from leadline.experiments.measure.kinds.retrieval import right_answers
from leadline.experiments.measure.kinds.text_curves import MixedCurve, TextCurve
from leadline.experiments.measure.kinds.transduction import cross_statistics, without_end
from leadline.experiments.measure.layers import layer_statistics, sink_statistics
from leadline.experiments.measure.perplexity import mean_loss
from leadline.experiments.measure.sinks import first_norm_ratio, mean_mass
from leadline.experiments.records.measurement import reading
from leadline.model.block import LayerTrace


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
    """Loss of the answers and accuracy of whole answers, of a task that draws its own held-out rows."""

    def batches(self, source: RetrievalSource | TransductionSource | GridSource, arm: Measured) -> Sample:
        return in_batches(source.held_out(arm.measure.windows))

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        hit, losses, weights = answers(evaluate, batches)
        return {
            reading("loss"): mean_loss(losses, weights),
            reading("accuracy"): jnp.mean(right_answers(hit, weights), dtype=jnp.float32),
        }


class TransductionCurve(TaskCurve):
    """For an encoder–decoder, also the cross-attention to the ends of the source."""

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:
        # After END nothing is predicted: as padding it is no query, and no other query sees it.
        _, layers = evaluate(without_end(jnp.asarray(batches.tokens)), of_layer=cross_statistics)
        return layers | super().statistics(evaluate, batches, shared, measure)


class GridCurve(TaskCurve):
    """Loss and accuracy of the answers, on grids of the training sizes."""

    def statistics(self, evaluate: Evaluation, batches: Sample, shared: None, measure: Measure) -> Statistics:  # noqa: ARG002
        hit, losses, weights = answers(evaluate, batches)
        return {
            reading("loss"): mean_loss(losses, weights),
            reading("accuracy"): jnp.mean(hit, where=weights > 0, dtype=jnp.float32),
        }


def curve_of(data: Data) -> Curve:
    """The curve of a kind of data."""
    kinds = {
        BackcopyData: BackcopyCurve,
        RetrievalData: TaskCurve,
        MixedData: MixedCurve,
        TextData: TextCurve,
        TransductionData: TransductionCurve,
        GridData: GridCurve,
    }
    return kinds[type(data)]()
