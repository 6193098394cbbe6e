"""Accuracy of transduced sequences by their size, and where cross-attention goes."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from leadline.experiments.config.data import PADDING
from leadline.experiments.config.measure import TransductionMeasure
from leadline.experiments.data.transduction import BEGIN, END, TransductionSource
from leadline.experiments.measure.evaluate import Models, Statistics, in_batches
from leadline.experiments.measure.kinds.retrieval import hits, right_answers
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.model.block import LayerTrace


def transduction(models: Models, settings: TransductionMeasure) -> list[Point]:
    """`accuracy` of whole answers, `token_accuracy` and `answers`, by `size`. One program a length of rows serves all models.

    An answer is right if greedy search gives it: then every token is the most likely one after the right ones before it.
    """
    source: TransductionSource = models.source
    points = [Point() for _ in models.arms]
    by_length: dict[int, list[int]] = {}
    for size in settings.sizes:
        by_length.setdefault(2 * source.data.half(max(size, source.data.size)), []).append(size)
    for length, sizes in by_length.items():
        samples = {size: jax.device_get(source.held_out(settings.rows, size)) for size in sizes}
        batches = in_batches(np.concatenate([sample.tokens for sample in samples.values()]))
        for point, hit in zip(points, models.evaluated(f"sizes in {length}", batches, hits), strict=True):
            for (size, sample), of_size in zip(samples.items(), np.split(hit, len(samples)), strict=True):
                right = np.asarray(right_answers(of_size, sample.weights))
                shares = {"accuracy": np.mean(right), "token_accuracy": np.mean(of_size[sample.weights > 0])}
                point |= scalars(shares | {"answers": float(len(right))}, size=size)
    return points


def without_end(tokens: Int[Array, "*C T_and_1"]) -> Int[Array, "*C T_and_1"]:
    """Rows with PADDING in place of the END of their targets."""
    of_target = jnp.arange(tokens.shape[-1]) >= tokens.shape[-1] // 2
    return jnp.where((tokens == END) & jnp.broadcast_to(of_target, tokens.shape), PADDING, tokens)


def cross_statistics(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
    """The cross-attention of each head [N] to the first and the last token of a source, and what an even one gives them [].

    Means over the tokens of the targets that are no padding.
    """
    if trace.cross is None:
        return {}
    source, target = jnp.split(tokens, 2, axis=1)
    queries, keys = (jnp.sum(ids != PADDING, axis=1).astype(jnp.float32) for ids in (target, source))

    def mass(chosen: Bool[Array, "B S"]) -> Float[Array, " N"]:
        received = jnp.sum(trace.cross.received * chosen[:, None].astype(jnp.float32), axis=(0, 2))  # pyright: ignore[reportOptionalMemberAccess]
        return received / jnp.sum(queries)

    return {
        reading("cross_bos_mass"): mass(source == BEGIN),
        reading("cross_eos_mass"): mass(source == END),
        reading("cross_even_mass"): jnp.sum(queries / keys) / jnp.sum(queries),
    }
