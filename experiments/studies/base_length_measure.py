"""Perplexity of text and recall by distance of models that were trained on both."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from experiments.config.measure import BaseLengthMeasure
from experiments.config.position import Rope
from experiments.config.study import Arm
from experiments.data.mixed import MixedSource
from experiments.data.sample import Sample
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate_answers, in_batches, sample_in_batches
from experiments.group import Point
from experiments.measure.perplexity import perplexities
from experiments.measure.reach import accuracy, binned, edges, measured_reach
from experiments.population import in_rounds
from experiments.position_tables import tables
from model.decoder import Decoder, DecoderConfig
from model.positions.base_bound import first_violation
from model.positions.tables import PositionTables

# No context of these studies is longer: a base whose B_m is not negative below it has no reach worth a number.
FURTHEST = 2**17


class BaseLengthMeasurer:
    """Loss on text and on answers along the way; at the end perplexity and accuracy by distance at every length."""

    def batches(self, source: MixedSource, measure: BaseLengthMeasure) -> Sample:
        for length in measure.lengths:
            source.held_out_text(length, measure.tokens)  # what is too short for the end is said at the beginning
        length = source.data.length
        text = source.held_out_text(length, measure.sequences * length)
        recall = source.held_out_recall(length, measure.sequences)
        # One row of either kind after the other, so that every batch has both.
        rows = np.stack([text, recall.tokens], axis=1).reshape(-1, length + 1)
        nowhere = np.full((len(text), length), -1, np.int32)
        evidence = np.stack([nowhere, np.asarray(recall.evidence)], axis=1).reshape(-1, length)
        weights = np.stack([np.ones((len(text), length), np.float32), np.asarray(recall.weights)], axis=1).reshape(-1, length)
        return sample_in_batches(Sample(rows, weights, evidence), TOKENS_AT_ONCE)  # pyright: ignore[reportArgumentType]  # host arrays serve

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: Sample,
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: BaseLengthMeasure,  # noqa: ARG002
    ) -> Statistics:
        right, losses = evaluate_answers(params, tables, batches, model)
        asked: Any = batches.evidence >= 0  # pyright: ignore[reportOptionalOperand]
        text: Any = (batches.weights > 0) & ~asked  # pyright: ignore[reportOptionalOperand]
        return {
            "loss": jnp.sum(losses * text) / jnp.sum(text),
            "recall_loss": jnp.sum(losses * asked) / jnp.sum(asked),
            "recall_accuracy": jnp.sum(right & asked) / jnp.sum(asked),
        }

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: MixedSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """One program a length serves all models: their bases are values."""
        found: list[Point] = [{"predicted_reach": np.asarray(predicted_reach(arm))} for arm in arms]
        measure: Any = arms[0].measure
        for length in measure.lengths:
            recall = source.held_out_recall(length, measure.rows)
            text = source.scored(length, measure.tokens)
            results = _measured(arms, params, text.windows, recall, model, programs)
            for arm, own, result in zip(arms, found, results, strict=True):
                losses = result["losses"].reshape(-1, length)
                named = perplexities(losses, text.counted, text.documents, measure.last, str(length))
                own |= {name: np.asarray(value) for name, value in named.items()}
                own |= _of_recall(result["right"].reshape(-1, length), recall, arm, length)
        return found


def predicted_reach(arm: Arm) -> float:
    """The first distance at which B_m of the arm's base is negative; infinite where there is none below FURTHEST.

    Raises ValueError for an arm without RoPE.
    """
    if not isinstance(arm.model.position, Rope):
        raise ValueError(f"arm {arm.name} has no RoPE, so no base that could bound its reach")
    found = first_violation(arm.model.position.base, arm.model.head_width, FURTHEST)
    return math.inf if found is None else float(found.first)


def _measured(
    arms: Sequence[Arm],
    params: Sequence[Decoder],
    text: Int[np.ndarray, "W T"],
    recall: Sample,
    model: DecoderConfig,
    programs: list[str],
) -> list[Point]:
    """Of every model the loss of each target of the text, and which targets of recall it hits; both [C, B, T]."""
    length = text.shape[1] - 1
    held_out = in_batches(text, TOKENS_AT_ONCE), sample_in_batches(recall, TOKENS_AT_ONCE)
    own = [(weights, tables(arm.model, arm.data.length)) for weights, arm in zip(params, arms, strict=True)]

    def job(params: Decoder, row: PositionTables, shared: tuple[Array, Sample]) -> Statistics:
        _, losses = evaluate_answers(params, row, Sample(shared[0]), model)
        right, _ = evaluate_answers(params, row, shared[1], model)
        return {"losses": losses, "right": right.astype(jnp.float32)}

    rows = held_out[0].shape[1], held_out[1].tokens.shape[1]
    return in_rounds(f"measure at {length}", job, own, held_out, programs, *rows, model.block.width)


def _of_recall(right: Float[np.ndarray, "R T"], recall: Sample, arm: Arm, length: int) -> Point:
    """Accuracy under the names of the record, as a quantity, an evaluation length and the upper edge of a bin."""
    answers, recalled = _by_distance(recall, right)
    shares, counts = accuracy(binned(recalled), binned(answers)), binned(answers)
    named: dict[str, Any] = {
        f"recall_accuracy.{length}": recalled.sum() / answers.sum(),
        f"reach.{length}": measured_reach(shares, 1 / arm.data.values, length),  # pyright: ignore[reportAttributeAccessIssue]
        f"recalled_at_distance.{length}": recalled,
        f"answers_at_distance.{length}": answers,
    }
    for edge, share_right, count in zip(edges(length), shares, counts, strict=True):
        named |= {f"accuracy.{length}.{edge}": share_right, f"answers.{length}.{edge}": count}
    reach = predicted_reach(arm)
    within = np.arange(length) < reach
    for name, chosen in (("within", within), ("beyond", ~within)):
        if answers[chosen].sum():
            named[f"accuracy_{name}.{length}"] = recalled[chosen].sum() / answers[chosen].sum()
    return {name: np.asarray(value, np.float64) for name, value in named.items()}


def _by_distance(recall: Sample, right: Float[np.ndarray, "B T"]) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """How many answers of the rows are at each distance d < T, and how many of them are right."""
    evidence = np.asarray(recall.evidence)
    asked = evidence >= 0
    distance = (np.arange(evidence.shape[1])[None] - evidence)[asked]
    answers, recalled = (np.bincount(distance, weights, evidence.shape[1]) for weights in (None, right[asked]))
    return answers.astype(np.float64), recalled.astype(np.float64)
