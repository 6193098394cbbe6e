"""Accuracy of retrieval in words, by task, length and depth."""

import jax
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Int

from leadline.experiments.config.measure import PromptsMeasure
from leadline.experiments.data.sample import HELD_OUT_SEED
from leadline.experiments.data.text.batches import drawn_first
from leadline.experiments.data.text.prompts import Prompts, prompts
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Models, as_rows, in_batches
from leadline.experiments.measure.kinds.retrieval import hits
from leadline.experiments.records.measurement import Dim, Point, reading, scalars
from leadline.model.decoder import Decoder, DecoderConfig, apply_layers, unembed
from leadline.model.positions.tables import PositionTables


def retrieval_in_words(models: Models, settings: PromptsMeasure) -> list[Point]:
    """`accuracy`, and `accuracy_by_depth`, of every task at every length. One program a length serves all models and tasks."""
    points: list[Point] = [{} for _ in models.arms]
    for length in settings.lengths:
        drawn = prompts_of(models.source, settings, length)
        batches = in_batches(drawn.tokens)

        def job(params: Decoder, row: PositionTables, batches: Array, length: int = length) -> Bool[Array, "R A"]:
            return answer_hits(params, row, batches, length, models.model)

        tables = models.tables(length + drawn.answers.shape[1] - 1)  # the last token of an answer is not read
        results = models.run(f"prompts of {length}", job, tables, batches, batches.shape[1])
        for point, hit in zip(points, results, strict=True):
            right = np.all(hit | ~drawn.answers, axis=1).reshape(len(settings.tasks), settings.depths, settings.rows)
            for task, of_task in zip(settings.tasks, right, strict=True):
                dims: dict[str, Dim] = {"task": task, "length": length}
                point |= scalars({"accuracy": np.mean(of_task), "answers": float(of_task.size)}, **dims)
                point[reading("accuracy_by_depth", **dims)] = np.mean(of_task, axis=1)
                point[reading("answers_by_depth", **dims)] = np.full(settings.depths, settings.rows)
                point[reading("depth", **dims)] = np.linspace(0, 1, settings.depths)
    return points


def prompts_of(source: TextSource, settings: PromptsMeasure, length: int) -> Prompts:
    """The prompts of one length, which begin as the windows of the source do.

    Raises:
        UserError: for a length that has no room for a needle and its question.
    """
    first = drawn_first(source.text.first, HELD_OUT_SEED, np.zeros(1, np.int64))[0]
    return prompts(source.tokenizer, first, settings.tasks, length, settings.depths, settings.rows)


def answer_hits(
    params: Decoder, tables: PositionTables, batches: Int[Array, "C B T_and_A"], length: int, cfg: DecoderConfig
) -> Bool[Array, "R A"]:
    """Whether each token after the prompt has the largest logit, given the prompt and the tokens before it.

    Greedy decoding gives an answer exactly if all tokens of the answer are hit: as long as they are, what it reads is the same.
    """

    def of_batch(tokens: Int[Array, "B T_and_A"]) -> Bool[Array, "B A"]:
        x, _ = apply_layers(params, tokens[:, :-1], tables, cfg)
        return jax.reshard(hits(unembed(params, x[:, length - 1 :], cfg), tokens[:, length:]), P(None, None))

    return as_rows(jax.lax.map(of_batch, batches))
