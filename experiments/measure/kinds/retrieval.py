"""Accuracy of retrieval by task, length, depth, size and distance."""

import jax
import numpy as np
from jaxtyping import Array, Bool

from leadline.experiments.config.data import Task
from leadline.experiments.config.measure import RetrievalMeasure
from leadline.experiments.config.study import Arm
from leadline.experiments.data.retrieval.source import RetrievalSource, grid, sizes_asked
from leadline.experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import evaluate, in_batches
from leadline.experiments.measure.kinds.kind import Models, required
from leadline.experiments.measure.retrieval import by_bin, depths, distances, grid_edges, hits, right_answers
from leadline.experiments.records.measurement import Dim, Point, reading
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables

# Of the depths, the first and last eighth are the ends, and the quarter around the half is the middle.
ENDS = 8


def retrieval(models: Models) -> list[Point]:
    """Every task at every length. One program a length serves all models, seeds and tasks."""
    settings, source = required(models.measure.retrieval), models.source
    points: list[Point] = [{} for _ in models.arms]
    for length in settings.lengths:
        samples = {task: jax.device_get(questions(source, task, length, settings)) for task in source.data.tasks}
        batches = in_batches(np.concatenate([sample.tokens for sample in samples.values()]))

        def job(params: Decoder, row: PositionTables, batches: Array) -> Bool[Array, "R T"]:
            return evaluate(params, row, batches, models.model, of_target=hits)[0]

        results = models.run(f"retrieval at {length}", job, models.tables(length), batches, batches.shape[1])
        for point, hit in zip(points, results, strict=True):
            for (task, sample), of_task in zip(samples.items(), np.split(hit, len(samples)), strict=True):
                point |= accuracies(task, of_task, sample, settings, source.data.length)
    return points


def check_retrieval(source: RetrievalSource, arm: Arm) -> None:
    """UserError where a task does not fit into some length."""
    settings = required(arm.measure.retrieval)
    for length in settings.lengths:
        for task in source.data.tasks:
            jax.eval_shape(lambda task=task, length=length: questions(source, task, length, settings))


def questions(source: RetrievalSource, task: Task, length: int, settings: RetrievalMeasure) -> Sample:
    """What is asked of a task at a length."""
    return source.questions(task, length, settings.depths, settings.rows)


def accuracies(task: Task, hit: Bool[np.ndarray, "R T"], sample: Sample, settings: RetrievalMeasure, trained: int) -> Point:
    """What is kept of the rows of one task: accuracy of answers and tokens with counts, as a whole and in bins.

    Args:
        task: with one needle, whose answers are counted by the depth of the needle; with several, whose tokens are counted by
            the depth of what each is read from; or copy and addition, whose answers are counted by size.
        hit: whether each target is hit.
        sample: the rows.
        settings: depths, and rows of each.
        trained: the training length, on which the sizes depend.
    """
    weights, evidence = np.asarray(sample.weights), np.asarray(sample.evidence)
    right, length = np.asarray(right_answers(hit, weights)), hit.shape[1]
    dims: dict[str, Dim] = {"task": task, "length": length}
    point: Point = {
        reading("accuracy", **dims): _mean(right),
        reading("token_accuracy", **dims): _mean(hit[weights > 0]),
        reading("answers", **dims): np.asarray(float(len(right))),
    }

    def binned(right: np.ndarray, place: np.ndarray, edges: np.ndarray, names: tuple[str, str]) -> None:
        for name, values in zip(names, by_bin(right, place, edges), strict=True):
            point[reading(name, **dims)] = values

    at, edges = grid(settings.depths, settings.rows), grid_edges(settings.depths)
    even = np.linspace(0.0, 1.0, settings.depths + 1)
    centres = (even[:-1] + even[1:]) / 2
    if task in OF_A_SIZE:
        binned(right, at, edges, ("accuracy_by_size", "answers_by_size"))
        point[reading("size", **dims)] = sizes_asked(task, trained, length, settings.depths)
    elif task in AT_A_DEPTH:
        binned(right, at, edges, ("accuracy_by_depth", "answers_by_depth"))
        point[reading("depth", **dims)] = np.linspace(0.0, 1.0, settings.depths)
        parts = {"first": at <= 1 / ENDS, "middle": np.abs(at - 0.5) <= 1 / ENDS, "last": at >= 1 - 1 / ENDS}
        point |= {reading("accuracy", part=part, **dims): _mean(right[rows]) for part, rows in parts.items()}
    else:
        binned(hit, depths(evidence), even, ("token_accuracy_by_depth", "tokens_by_depth"))
        point[reading("depth", **dims)] = centres
    if (evidence >= 0).any():
        binned(hit, distances(evidence), length * even, ("token_accuracy_by_distance", "tokens_by_distance"))
        point[reading("distance", **dims)] = length * centres
    return point


def _mean(right: Bool[np.ndarray, "N"]) -> np.ndarray:
    return np.asarray(np.mean(right, dtype=np.float64))
