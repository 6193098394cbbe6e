"""Accuracy of retrieval by task, length, depth, size and distance."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from experiments.config.measure import RetrievalMeasure
from experiments.config.study import Arm
from experiments.data.retrieval.source import RetrievalSource, grid
from experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE, Task
from experiments.data.sample import Sample
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate_answers, sample_in_batches
from experiments.group import Point
from experiments.measure.perplexity import mean_loss
from experiments.measure.retrieval import by_bin, depths, distances, grid_edges, right_answers
from experiments.population import in_rounds
from experiments.position_tables import tables
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

# The first and last eighth of the depths are the ends, and the quarter around the half is the middle.
ENDS = 8


class RetrievalMeasurer:
    """Loss and accuracy of the mixture along the way; at the end every task at every length, by depth or by size."""

    def batches(self, source: RetrievalSource, measure: RetrievalMeasure) -> Sample:
        for length in measure.lengths:  # what does not fit at the end is said at the beginning
            for task in source.data.tasks:
                jax.eval_shape(lambda task=task, length=length: source.questions(task, length, measure.depths, measure.rows))
        return sample_in_batches(source.held_out(measure.sequences), TOKENS_AT_ONCE)

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Sample,
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: RetrievalMeasure,  # noqa: ARG002
    ) -> Statistics:
        hit, losses = evaluate_answers(params, tables, batches, model)
        weights = jnp.asarray(batches.weights)
        return {
            "loss": mean_loss(losses, weights),
            "accuracy": jnp.mean(right_answers(hit, weights), dtype=jnp.float32),
        }

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: RetrievalSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """One program a length serves all models, seeds and tasks."""
        measure = arms[0].measure
        if not isinstance(measure, RetrievalMeasure):
            raise TypeError(f"arm {arms[0].name} is no arm of this study: its measure is {type(measure).__name__}")
        found: list[Point] = [{} for _ in arms]
        for length in measure.lengths:
            asked: dict[Task, Sample] = {}
            for task in source.data.tasks:
                asked[task] = source.questions(task, length, measure.depths, measure.rows)
            for point, hit in zip(found, _answered(arms, params, model, length, asked, programs), strict=True):
                for task, sample in asked.items():
                    found_here = accuracies(task, hit[task], jax.device_get(sample), measure)
                    point |= {f"{name}.{task}.{length}": value for name, value in found_here.items()}
        return found


def _answered(
    arms: Sequence[Arm],
    params: Sequence[Decoder],
    model: DecoderConfig,
    length: int,
    asked: dict[Task, Sample],
    programs: list[str],
) -> list[dict[Task, Bool[np.ndarray, "R T"]]]:
    """Of every model, which targets of every task it hits."""
    together: Sample = jax.tree.map(lambda *arrays: np.concatenate(arrays), *jax.device_get(list(asked.values())))
    rows = sample_in_batches(together, TOKENS_AT_ONCE)
    own = [(weights, tables(arm.model, arm.data.length, length)) for weights, arm in zip(params, arms, strict=True)]

    def job(params: Decoder, row: PositionTables, batches: Sample) -> Bool[Array, "C B T"]:
        return evaluate_answers(params, row, batches, model)[0]

    hits = in_rounds(f"measure at {length}", job, own, rows, programs, rows.tokens.shape[1], model.block.width)
    found = [hit.reshape(len(asked), -1, length) for hit in hits]
    return [dict(zip(asked, hit, strict=True)) for hit in found]


def accuracies(task: Task, hit: Bool[np.ndarray, "R T"], sample: Sample, measure: RetrievalMeasure) -> Point:
    """What is kept of the rows of one task: accuracy of answers and tokens, with counts; by depth or size, and by distance.

    A task with one needle is counted by the depths at which it was put, one with several by the depth of what each token
    is read from; copy and addition by their size.
    """
    weights, evidence = np.asarray(sample.weights), np.asarray(sample.evidence)
    right, target = np.asarray(right_answers(hit, weights)), weights > 0
    found: Point = {
        "accuracy": _mean(right),
        "token_accuracy": _mean(hit[target]),
        "count": np.asarray(float(len(right))),
    }
    at, edges = grid(measure.depths, measure.rows), grid_edges(measure.depths)
    if task in OF_A_SIZE:
        found |= _named("accuracy_by_size", "count_by_size", *by_bin(right, at, edges))
    elif task in AT_A_DEPTH:
        found |= _named("accuracy_by_depth", "count_by_depth", *by_bin(right, at, edges))
        where = {"first": at <= 1 / ENDS, "middle": np.abs(at - 0.5) <= 1 / ENDS, "last": at >= 1 - 1 / ENDS}
        found |= {f"accuracy_{name}": _mean(right[rows]) for name, rows in where.items()}
    else:
        equal = np.linspace(0.0, 1.0, measure.depths + 1)
        found |= _named("token_accuracy_by_depth", "token_count_by_depth", *by_bin(hit, depths(evidence), equal))
    if (evidence >= 0).any():
        equal = np.linspace(0.0, evidence.shape[1], measure.depths + 1)
        found |= _named("accuracy_by_distance", "count_by_distance", *by_bin(hit, distances(evidence), equal))
    return found


def _mean(right: Bool[np.ndarray, "N"]) -> np.ndarray:
    return np.asarray(np.mean(right, dtype=np.float64))


def _named(share_name: str, count_name: str, shares: np.ndarray, counts: np.ndarray) -> Point:
    return {share_name: shares, count_name: counts}
