"""Perplexity of text, and recall by distance, at every length, and the distance at which recall ends."""

import math

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.measure import RecallMeasure
from leadline.experiments.config.measured import Measured
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import TextLengths
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import Models, evaluate, in_batches
from leadline.experiments.measure.kinds.retrieval import hits
from leadline.experiments.measure.perplexity import bin_means, evaluated, perplexities
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.model.base_bound.sums import violations
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables

# Bases whose B_m is not negative below this distance have no predicted reach: no context here is longer.
FURTHEST = 2**17


def recall(models: Models, settings: RecallMeasure) -> list[Point]:
    """At every length: perplexity of text; accuracy of recall of all, by distance, and within and beyond the predicted reach.

    One program a length serves all models: their bases are values.
    """
    points: list[Point] = [{reading("predicted_reach"): np.asarray(predicted_reach(arm))} for arm in models.arms]
    longest = models.source.text.held_out(max(settings.lengths), settings.windows)
    for length in settings.lengths:
        text = longest.ending(length)
        rows = models.source.held_out_recall(length, settings.rows)
        batches = in_batches(text.windows), in_batches(np.asarray(rows.tokens))

        def job(params: Decoder, row: PositionTables, shared: tuple[Array, Array]) -> tuple[Array, Array]:
            losses, _ = evaluate(params, row, shared[0], models.model)
            hit, _ = evaluate(params, row, shared[1], models.model, of_target=hits)
            return losses, hit

        results = models.run(f"recall at {length}", job, models.tables(length), batches, *(batch.shape[1] for batch in batches))
        for arm, point, (losses, hit) in zip(models.arms, points, results, strict=True):
            point |= perplexities(losses, text, settings.last, length=length)
            point |= evaluated(text, length=length, of="perplexity") | accuracies(hit, rows, arm)
    return points


def predicted_reach(arm: Measured) -> float:
    """The first distance [tokens] at which B_m is negative; infinite where there is none below FURTHEST.

    B_m = Σ cos(m θ_i) is over the frequencies θ_i of the arm. Pairs of channels that do not rotate have θ_i = 0 and count as 1.

    Raises:
        ValueError: for an arm without RoPE.
    """
    position = arm.model.position
    if not isinstance(position, Rope):
        raise ValueError(f"position {position.kind!r} has no base that could bound its reach")
    rows = position.rows(arm.model.attention_heads, TextLengths(arm.original_length, arm.data.length))
    violation = violations(rows["inverse_frequencies"], FURTHEST)
    return math.inf if violation is None else float(violation.first)


def accuracies(hit: np.ndarray, rows: Sample, arm: Measured) -> Point:
    """Accuracy and number of answers: of all, of each bin of distance, and within and beyond the predicted reach."""
    evidence, length = np.asarray(rows.evidence), hit.shape[1]
    is_answer = evidence >= 0
    distance = (np.arange(length)[None] - evidence)[is_answer]
    answers, recalled = (np.bincount(distance, weights, length).astype(np.float64) for weights in (None, hit[is_answer]))
    counts = binned(answers)
    shares = bin_means(binned(recalled), counts)
    reach = float(measured_reach(shares, 1 / arm.data.values, length))  # pyright: ignore[reportAttributeAccessIssue]
    counted = {"recall_accuracy": recalled.sum() / answers.sum(), "answers": answers.sum(), "reach": reach}
    point = scalars(counted, length=length)
    for edge, share, count in zip(distance_edges(length), shares, counts, strict=True):
        point |= scalars({"recall_accuracy": share, "answers": count}, length=length, distance=edge)
    within = np.arange(length) < predicted_reach(arm)
    for part, chosen in (("within", within), ("beyond", ~within)):
        if answers[chosen].sum():
            point |= scalars({"recall_accuracy": recalled[chosen].sum() / answers[chosen].sum()}, length=length, part=part)
    return point


# A reach is read off only where accuracy exceeds chance by more than this at some distance.
LEARNED = 0.1


def distance_edges(length: int) -> list[int]:
    """Upper edges of half-octave bins of distance: 2, 4, 5, 8, 11, 16, 22, … up to the first at or above `length`.

    A bin holds the distances above the edge before it, up to its own; each holds an odd distance.
    """
    edges = [2]
    while edges[-1] < length:
        edges.append(int(2 ** (len(edges) / 2 + 1.5)))
    return edges


def binned(counts: Int[np.ndarray, " T"] | Float[np.ndarray, " T"]) -> Float[np.ndarray, " bins"]:
    """Sums of counts by distance over the bins of `distance_edges(T)`. Entry d counts distance d; entry 0 is in no bin."""
    upper = distance_edges(len(counts))
    bins = zip([0, *upper[:-1]], upper, strict=True)
    return np.array([counts[low + 1 : high + 1].sum() for low, high in bins], np.float64)


def measured_reach(shares: Float[np.ndarray, " bins"], chance: float, length: int) -> int:
    """The distance [tokens] up to which recall works.

    Args:
        shares: accuracy in each bin of `distance_edges(length)`; NaN bins are passed over.
        chance: accuracy of guessing.
        length: of the text.

    Returns:
        The upper edge of the last measured bin before accuracy above chance first falls, after its best bin, below half of its
        best; `length` where it never does, 0 where no bin is more than LEARNED above chance.
    """
    above = shares - chance
    if not np.any(above > LEARNED):
        return 0
    best = int(np.nanargmax(above))
    lost = np.flatnonzero(above[best:] < above[best] / 2)
    if not len(lost):
        return length
    before = np.flatnonzero(np.isfinite(above[best : best + int(lost[0])]))[-1]  # the best bin itself is one
    return min(distance_edges(length)[best + int(before)], length)
