"""Accuracy of retrieval by task, length, depth, size and distance."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, Integer

from leadline.experiments.config.data import Task
from leadline.experiments.config.measure import RetrievalMeasure
from leadline.experiments.data.retrieval.source import grid, sizes_asked
from leadline.experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import Models, in_batches
from leadline.experiments.measure.perplexity import bin_means
from leadline.experiments.records.measurement import Dim, Point, reading, scalars

# Of the depths, the first and last eighth are the ends, and the quarter around the half is the middle.
ENDS = 8


def retrieval(models: Models, settings: RetrievalMeasure) -> list[Point]:
    """Every task at every length. One program a length serves all models, seeds and tasks."""
    source, points, shape = models.source, [Point() for _ in models.arms], (settings.depths, settings.rows)
    for length in settings.lengths:
        samples = {task: jax.device_get(source.questions(task, length, *shape)) for task in source.data.tasks}
        batches = in_batches(np.concatenate([sample.tokens for sample in samples.values()]))
        results = models.evaluated(f"retrieval at {length}", batches, hits)
        for point, hit in zip(points, results, strict=True):
            for (task, sample), of_task in zip(samples.items(), np.split(hit, len(samples)), strict=True):
                point |= accuracies(task, of_task, sample, settings, source.data.length)
    return points


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
    shares = {"accuracy": np.mean(right), "token_accuracy": np.mean(hit[weights > 0])}
    point = scalars(shares | {"answers": float(len(right))}, **dims)

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
        for part, rows in parts.items():
            point |= scalars({"accuracy": np.mean(right[rows])}, part=part, **dims)
    else:
        binned(hit, depths(evidence), even, ("token_accuracy_by_depth", "tokens_by_depth"))
        point[reading("depth", **dims)] = centres
    if (evidence >= 0).any():
        binned(hit, distances(evidence), length * even, ("token_accuracy_by_distance", "tokens_by_distance"))
        point[reading("distance", **dims)] = length * centres
    return point


def hits(logits: Float[Array, "B T V"], targets: Int[Array, "B T"]) -> Bool[Array, "B T"]:
    """Whether each target has the largest logit; of equal logits the lowest id wins."""
    return jnp.argmax(logits, axis=-1) == targets


def right_answers(hit: Bool[Array | np.ndarray, "R T"], weights: Float[Array | np.ndarray, "R T"]) -> Bool[Array, " R"]:
    """The rows in which every target with a weight above 0 is hit."""
    return jnp.all(hit | (weights <= 0), axis=-1)


def depths(evidence: Int[np.ndarray, "R T"]) -> Float64[np.ndarray, "R T"]:
    """Depth of the evidence of each target, evidence / T: 0 at the beginning, near 1 at the end. NaN without evidence."""
    return np.where(evidence >= 0, evidence / evidence.shape[1], np.nan)


def distances(evidence: Int[np.ndarray, "R T"]) -> Float64[np.ndarray, "R T"]:
    """Tokens from each query back to the evidence of its target, t - evidence. NaN without evidence."""
    return np.where(evidence >= 0, np.arange(evidence.shape[1]) - evidence, np.nan)


def by_bin(
    right: Bool[np.ndarray, "*N"], place: Float64[np.ndarray, "*N"], edges: Float64[np.ndarray, "E"]
) -> tuple[Float64[np.ndarray, "E-1"], Integer[np.ndarray, "E-1"]]:
    """Share that is right, and count, in the bins edges[i] <= place < edges[i + 1]; the last bin includes its upper edge.

    Places that are NaN or outside are not counted. The share of an empty bin is NaN.
    """
    hit, counts = (np.histogram(place[chosen & np.isfinite(place)], edges)[0] for chosen in (right, True))
    return bin_means(hit, counts), counts


def grid_edges(points: int) -> Float64[np.ndarray, "{points}+1"]:
    """Edges of the bins around the points of an even grid from 0 to 1, one point in each.

    Raises:
        ValueError: for fewer than two points.
    """
    if points < 2:
        raise ValueError(f"a grid of {points} points has no steps; 2 or more are needed")
    return (np.arange(points + 1) - 0.5) / (points - 1)
