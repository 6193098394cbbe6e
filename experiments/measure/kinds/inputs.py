"""Sinks by kind of input: natural text, random tokens, and one token repeated, each with BOS in front and without."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Int

from leadline.experiments.config.measure import InputsMeasure
from leadline.experiments.data.sample import HELD_OUT_SEED
from leadline.experiments.data.text.batches import drawn_first
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Models, Statistics, evaluate
from leadline.experiments.measure.kinds.vocabulary import token_sizes
from leadline.experiments.measure.layers import sink_statistics
from leadline.experiments.measure.perplexity import evaluated, means_without
from leadline.experiments.records.left_out import with_left_out
from leadline.experiments.records.measurement import Point
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder
from leadline.model.positions.tables import PositionTables


def inputs(models: Models, settings: InputsMeasure) -> list[Point]:
    """`sink_rate`, `first_token_mass` and `sink_logit_mass` of each head, by `input` and `bos` ("fixed" or "absent").

    Gu et al. 2025, arXiv:2410.10781, Table 1: T = 64 and 100 sequences by default. Each is measured without each group of
    held-out documents too; a row that is not natural is in the group of the natural row of the same number. One program serves
    all models and inputs.
    """
    sink, bos = models.arms[0].measure.sink, models.source.tokenizer.specials.bos
    natural = replace(models.source.text, first=np.empty(0, np.int32)).held_out(sink.length, settings.sequences)
    cases = {(name, "absent"): rows for name, rows in input_rows(models.source, natural.windows).items()}
    if bos is not None:
        cases |= {(name, "fixed"): np.insert(rows[:, :-1], 0, bos, axis=1) for (name, _), rows in cases.items()}

    def of_layer(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:  # noqa: ARG001
        return sink_statistics(trace, sink)

    def job(params: Decoder, inputs: tuple[PositionTables, Int[Array, "S T_and_1"]], _: tuple[()]) -> Statistics:
        table, rows = inputs
        return jax.lax.map(lambda row: evaluate(params, table, row[None, None], models.model, of_layer=of_layer)[1], rows)

    inputs = [(table, rows) for table in models.tables(sink.length) for rows in cases.values()]
    results = models.run("inputs", job, inputs, (), 1)
    points, enough = [], natural.enough_documents
    for first in range(0, len(results), len(cases)):
        point = evaluated(natural, length=sink.length, of="inputs")
        for (name, beginning), statistics in zip(cases, results[first : first + len(cases)], strict=True):
            for key, values in statistics.items():
                means = means_without(np.asarray(values), natural.window_groups)
                point |= with_left_out(key.at(input=name, bos=beginning), means, enough=enough)
        points.append(point)
    return points


def input_rows(source: TextSource, natural: Int[np.ndarray, "S T_and_1"]) -> dict[str, Int[np.ndarray, "S T_and_1"]]:
    """As many rows of every kind of input as there are natural ones, each with a target that nothing depends on.

    Random tokens are drawn evenly from all ids that stand for some text, by a key. No row begins with BOS.

    Args:
        source: of the model, with its tokenizer.
        natural: held-out windows.
    """
    ids = np.flatnonzero(token_sizes(source.tokenizer, source.vocabulary)).astype(np.int32)
    drawn = drawn_first(ids, HELD_OUT_SEED, np.arange(natural.size + len(natural)))
    random, repeated = np.split(drawn, [natural.size])
    repeated = np.repeat(repeated, natural.shape[1], axis=1)
    return {"natural": natural, "random": random.reshape(natural.shape), "repeated": repeated}
