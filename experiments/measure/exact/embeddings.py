"""Embeddings, exactly: gradients and steps of their rows, and their size at the start of a training. A job for each subject."""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import Embeddings
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.measure.exact import embedding_size, embedding_training
from leadline.experiments.measure.exact.job import Job, jobs_of_subjects
from leadline.experiments.records.measurement import Point, reading, scalars
from leadline.model.positions.absolute import sinusoidal

UNEMBEDDINGS: tuple[embedding_training.Unembedding, ...] = ("own", "tied")
CHANNELS = 8  # of the rows that the optimiser moves, all of them alike


class LookupSettings(Frozen):
    """Settings of the look-up and of its gradients."""

    kind: Literal["lookup"] = "lookup"
    width: int
    vocabulary: int
    tokens: int


class StepSettings(Frozen):
    """Settings of rows that no token looks up, or that one token did."""

    kind: Literal["steps"] = "steps"
    steps: int
    learning_rate: float
    weight_decay: float
    beta1: float
    beta2: float


class StartSettings(Frozen):
    """Settings of tables as they are drawn."""

    kind: Literal["start"] = "start"
    width: int
    vocabulary: int


class PositionSettings(Frozen):
    """Settings of embeddings beside sinusoidal positions."""

    kind: Literal["positions"] = "positions"
    width: int
    vocabulary: int
    positions: int
    shift: int


def jobs(exact: Embeddings) -> list[Job]:
    """A job for each subject."""
    table: dict[str, Any] = {"width": exact.width, "vocabulary": exact.vocabulary}
    descent = exact.model_dump(include=set(StepSettings.model_fields) - {"kind"})
    return jobs_of_subjects(
        (
            ("look-up", LookupSettings(**table, tokens=exact.tokens), lookup),
            ("steps of AdamW", StepSettings(**descent), steps),
            ("start of training", StartSettings(**table), start),
            ("sinusoidal positions", PositionSettings(**table, positions=exact.positions, shift=exact.shift), positions),
        )
    )


def lookup(settings: LookupSettings) -> Point:
    """`largest_difference` from one-hot products, and `row_gradient` by `unembedding`, `rows` and `of`."""
    sizes = settings.width, settings.vocabulary, settings.tokens
    point = scalars({"largest_difference": embedding_training.away_from_one_hot(*sizes)})
    for unembedding in UNEMBEDDINGS:
        lengths, seen = embedding_training.row_gradients(*sizes, unembedding)
        for rows, chosen in (("looked up", lengths[seen]), ("others", lengths[~seen])):
            for of, length in (("smallest", chosen.min()), ("largest", chosen.max())):
                point |= scalars({"row_gradient": length}, unembedding=unembedding, rows=rows, of=of)
    return point


def steps(settings: StepSettings) -> Point:
    """`kept_value` by `decay` and `start`, and `later_movement` by the step `seen_at`."""
    values = settings.model_dump(exclude={"kind"})
    decayed = TrainConfig(batch=1, **values)
    plain = decayed.model_copy(update={"weight_decay": 0.0})
    point: Point = {}
    for cfg in (decayed, plain):
        for first in (1.0, 0.0):
            kept = embedding_training.untouched(CHANNELS, cfg, first)
            point |= scalars({"kept_value": kept}, decay=cfg.weight_decay, start=first)
    longer = plain.model_copy(update={"steps": 2 * settings.steps})
    for step in (1, settings.steps):
        point |= scalars({"later_movement": embedding_training.moved_afterwards(CHANNELS, longer, step)}, seen_at=step)
    return point


def start(settings: StartSettings) -> Point:
    """Variance, `row_norm` and `logit_deviation` by how a `table` is drawn, and `loss_excess` by `unembedding` too."""
    point: Point = {}
    for name, table in embedding_size.initial_tables(settings.vocabulary, settings.width).items():
        numbers = {
            "entry_variance": float(np.asarray(table, np.float64).var()),
            "row_norm": embedding_size.mean_norm(table),
            "logit_deviation": embedding_size.logit_deviation(table),
        }
        point |= scalars(numbers, table=name)
        for unembedding in UNEMBEDDINGS:
            excess = embedding_size.loss_excess(table, unembedding)
            point |= scalars({"loss_excess": excess}, table=name, unembedding=unembedding)
    return point


def positions(settings: PositionSettings) -> Point:
    """Lengths, directions and cosines of embeddings and sinusoids, the error of a shift as a rotation, and wavelengths."""
    table = embedding_size.initial_tables(settings.vocabulary, settings.width)["N(0, 1/d)"]
    sinusoids = sinusoidal(jnp.arange(settings.positions), settings.width)
    norms = {
        "embedding": embedding_size.embedded_norm(table, scaled=False),
        "embedding · sqrt(d)": embedding_size.embedded_norm(table, scaled=True),
        "sinusoid": embedding_size.mean_norm(sinusoids),
    }
    point: Point = {reading("row_norm", rows=name): np.asarray(norm) for name, norm in norms.items()}
    for name, rows in (("embedding", table), ("sinusoid", sinusoids)):
        point |= scalars({"directions": embedding_size.directions(rows)}, rows=name)
    away = embedding_size.away_from_rotation(settings.width, settings.positions, settings.shift)
    point |= scalars({"largest_difference": away, "mean_cosine": embedding_size.mean_cosine(table, sinusoids)})
    wavelengths = embedding_size.wavelengths(settings.width)
    for of, wavelength in (("shortest", wavelengths.min()), ("longest", wavelengths.max())):
        point |= scalars({"wavelength": wavelength}, of=of)
    return point
