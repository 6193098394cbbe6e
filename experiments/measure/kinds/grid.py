"""Accuracy of questions about a grid by its size and the direction of the question."""

from dataclasses import replace

import jax
import numpy as np

from leadline.experiments.config.measure import GridMeasure
from leadline.experiments.data.grid import DIRECTIONS, GridSource
from leadline.experiments.measure.evaluate import Models, in_batches
from leadline.experiments.measure.kinds.retrieval import hits
from leadline.experiments.records.measurement import Point, scalars
from leadline.model.decoder import DecoderConfig

# The dimensions of a factor of the last axis, of the one before it, and of the first of three.
LARGER = ("wider", "taller", "longer")


def grid(models: Models, settings: GridMeasure) -> list[Point]:
    """`accuracy` and `answers`, of all and by `direction`, by how many times a grid is `wider`, `taller` and `longer`.

    One program a size serves all models.
    """
    source: GridSource = models.source
    points = [Point() for _ in models.arms]
    for factors in settings.factors:
        sizes = tuple(size * factor for size, factor in zip(source.data.sizes, factors, strict=True))
        sample = jax.device_get(source.held_out(settings.rows, sizes))
        of_size = replace(models, model=on_grid(models.model, sizes))
        name = "grid of " + " by ".join(map(str, sizes))
        results = of_size.evaluated(name, in_batches(sample.tokens), hits)
        asked = sample.weights > 0
        axis = (sample.tokens[:, :-1] - source.data.colours) // source.data.reach
        dims = dict(zip(LARGER, factors[::-1], strict=False))
        for point, hit in zip(points, results, strict=True):
            point |= scalars({"accuracy": np.mean(hit[asked]), "answers": float(asked.sum())}, **dims)
            for number, direction in enumerate(DIRECTIONS[: len(sizes)]):
                chosen = asked & (axis == number)
                shares = {"accuracy": np.mean(hit[chosen]), "answers": float(chosen.sum())}
                point |= scalars(shares, direction=direction, **dims)
    return points


def on_grid(model: DecoderConfig, sizes: tuple[int, ...]) -> DecoderConfig:
    """The structure of a model with its tokens on a grid of other sizes; weights and tables do not depend on them."""
    return replace(model, grid=sizes[1:]) if model.grid else model
