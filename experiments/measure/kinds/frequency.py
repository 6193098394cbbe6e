"""Embeddings and loss by how often an id occurs in the training text."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from leadline.experiments.config.measure import FrequencyMeasure
from leadline.experiments.data.text.source import TextSource
from leadline.experiments.measure.evaluate import Models, Statistics
from leadline.experiments.measure.kinds.vocabulary import occurrences
from leadline.experiments.measure.perplexity import evaluated, means_without
from leadline.experiments.records.left_out import with_left_out
from leadline.experiments.records.measurement import Point, Reading, reading, scalars
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import Decoder
from leadline.model.encoder_decoder import init_model


def frequency(models: Models, settings: FrequencyMeasure) -> list[Point]:
    """Means by `frequency_bin`, of which the first has the rarest ids and the last the most frequent ones.

    Of the ids of a bin: `occurrences` in the training text, and of their rows in the embedding `row_norm` and `row_change`, the
    length of the row less that of the first weights; of an unembedding that is not tied these with `of="unembedding"`. Of the
    held-out targets that are such an id: `loss`, with and without each group of documents, and their number, `targets`.
    """
    source, length = models.source, models.arms[0].data.length
    counts, bins = id_bins(source, settings.bins)
    text = source.text.held_out(length, settings.windows)
    counted, groups, enough = text.counted, text.groups, text.enough_documents
    target_bins = bins[text.windows[:, 1:]]
    lengths, losses = _row_lengths(models), models.window_losses("loss by frequency", text.windows)
    points: list[Point] = []
    for rows, of_target in zip(lengths, losses, strict=True):
        point = evaluated(text, of="frequency")
        for number in range(settings.bins):
            of_bin, dims = bins == number, {"frequency_bin": number + 1}
            chosen = counted & (target_bins == number)
            point |= scalars({"occurrences": counts[of_bin].mean(), "targets": float(chosen.sum())}, **dims)
            point |= {key.at(**dims): values[of_bin].mean(dtype=np.float64) for key, values in rows.items()}
            if chosen.any():
                means = means_without(of_target[chosen].astype(np.float64), groups[chosen])
                point |= with_left_out(reading("loss", **dims), means, enough=enough)
        points.append(point)
    return points


def id_bins(source: TextSource, count: int) -> tuple[Int[np.ndarray, " V"], Int[np.ndarray, " V"]]:
    """How often each id occurs in the training text, and the bin of `frequency_bins` that it is in.

    Raises:
        UserError: where the training text is not at hand, or the ids are fewer than the bins.
    """
    both = occurrences(source)
    if both is None:
        raise UserError("[measure.frequency] needs the training text, which is not at hand: leave the table out")
    if count > source.vocabulary:
        raise UserError(f"measure.frequency.bins = {count} is more than the {source.vocabulary} ids")
    return both[0], frequency_bins(both[0], count)


def frequency_bins(counts: Int[np.ndarray, " V"], count: int) -> Int[np.ndarray, " V"]:
    """The bin of each id, from 0 for the rarest, each with V / count ids but for rounding.

    Of ids that occur equally often the lower one counts as rarer.
    """
    ranks = np.argsort(np.argsort(counts, kind="stable"), kind="stable")
    return ranks * count // len(counts)


def _row_lengths(models: Models) -> list[dict[Reading, Float[np.ndarray, " V"]]]:
    """|e_v| of each row v, and |e_v - e_v(0)| of models whose first weights are drawn by a seed."""

    def job(params: Decoder, seed: UInt[Array, ""], nothing: None) -> Statistics:  # noqa: ARG001
        first = init_model(jax.random.key(seed), models.model) if models.seeds else None
        lengths: Statistics = {}
        for name, dims in (("embedding", {}), ("unembedding", {"of": "unembedding"})):
            rows = getattr(params, name)
            if rows is not None:
                lengths[reading("row_norm", **dims)] = jnp.linalg.norm(rows, axis=1)
            if rows is not None and first is not None:
                lengths[reading("row_change", **dims)] = jnp.linalg.norm(rows - getattr(first, name), axis=1)
        return lengths

    seeds = [np.uint32(seed) for seed in models.seeds or [0] * len(models.params)]
    return models.run("rows of the embedding", job, seeds, None)
