"""Perplexity of text, and recall by distance, at every length."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from leadline.experiments.config.data import MixedData
from leadline.experiments.config.position import Rope
from leadline.experiments.config.study import Arm
from leadline.experiments.data.mixed import MixedSource
from leadline.experiments.data.sample import Sample
from leadline.experiments.measure.evaluate import evaluate, in_batches
from leadline.experiments.measure.kinds.kind import Models, required
from leadline.experiments.measure.perplexity import evaluated, perplexities
from leadline.experiments.measure.reach import accuracy, binned, distance_edges, measured_reach
from leadline.experiments.measure.retrieval import hits
from leadline.experiments.records.measurement import Point, reading
from leadline.model.base_bound.sums import first_violation
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables

# Bases whose B_m is not negative below this distance have no predicted reach: no context here is longer.
FURTHEST = 2**17


def recall(models: Models) -> list[Point]:
    """At every length: perplexity of text; accuracy of recall of all, by distance, and within and beyond the predicted reach.

    One program a length serves all models: their bases are values.
    """
    settings = required(models.measure.recall)
    points: list[Point] = [{reading("predicted_reach"): np.asarray(predicted_reach(arm))} for arm in models.arms]
    longest = models.source.held_out(max(settings.lengths), settings.windows)
    for length in settings.lengths:
        text = longest.ending(length)
        rows = models.source.held_out_recall(length, settings.rows)
        batches = in_batches(text.windows), in_batches(np.asarray(rows.tokens))

        def job(params: Decoder, row: PositionTables, shared: tuple[Array, Array]) -> tuple[Array, Array]:
            losses, _ = evaluate(params, row, shared[0], models.model)
            hit, _ = evaluate(params, row, shared[1], models.model, of_target=hits)
            return losses, hit

        sizes = [batch.shape[1] for batch in batches]
        results = models.run(f"recall at {length}", job, models.tables(), batches, *sizes)
        for arm, point, (losses, hit) in zip(models.arms, points, results, strict=True):
            point |= perplexities(losses, text, settings.last, length=length)
            point |= evaluated(text, length=length, of="perplexity") | _recalled(hit, rows, arm)
    return points


def check_recall(source: MixedSource, arm: Arm) -> None:
    """UserError where no window of some length fits into the held-out text."""
    for length in required(arm.measure.recall).lengths:
        source.held_out(length, 1)


def predicted_reach(arm: Arm) -> float:
    """The first distance [tokens] at which B_m of the arm's base is negative; infinite where there is none below FURTHEST.

    Raises:
        ValueError: for an arm without RoPE.
    """
    if not isinstance(arm.model.position, Rope):
        raise ValueError(f"arm {arm.name} has no RoPE, so no base that could bound its reach")
    violation = first_violation(arm.model.position.base, arm.model.head_width, FURTHEST)
    return math.inf if violation is None else float(violation.first)


def _recalled(hit: np.ndarray, rows: Sample, arm: Arm) -> Point:
    """Accuracy and number of answers: of all, of each bin of distance, and within and beyond the predicted reach."""
    if not isinstance(arm.data, MixedData):
        raise ValueError(f"arm {arm.name} is not trained on recall")
    length, (answers, recalled) = hit.shape[1], by_distance(rows, hit)
    shares, counts = accuracy(binned(recalled), binned(answers)), binned(answers)
    values: dict[Any, float] = {
        reading("recall_accuracy", length=length): recalled.sum() / answers.sum(),
        reading("answers", length=length): answers.sum(),
        reading("reach", length=length): measured_reach(shares, 1 / arm.data.values, length),
    }
    for edge, share, count in zip(distance_edges(length), shares, counts, strict=True):
        values[reading("recall_accuracy", length=length, distance=edge)] = share
        values[reading("answers", length=length, distance=edge)] = count
    within = np.arange(length) < predicted_reach(arm)
    for part, chosen in (("within", within), ("beyond", ~within)):
        if answers[chosen].sum():
            values[reading("recall_accuracy", length=length, part=part)] = recalled[chosen].sum() / answers[chosen].sum()
    return {key: np.asarray(value, np.float64) for key, value in values.items()}


def by_distance(rows: Sample, hit: np.ndarray) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """How many answers there are at each distance d < T, and how many of them are right."""
    evidence = np.asarray(rows.evidence)
    is_answer = evidence >= 0
    distance = (np.arange(evidence.shape[1])[None] - evidence)[is_answer]
    answers, recalled = (np.bincount(distance, weights, evidence.shape[1]) for weights in (None, hit[is_answer]))
    return answers.astype(np.float64), recalled.astype(np.float64)
