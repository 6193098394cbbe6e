"""Tiny models of every kind of data, with every measurement at the end that the data allow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from leadline.experiments.config.data import (
    BackcopyData,
    Data,
    GridData,
    MixedData,
    RetrievalData,
    TextData,
    TransductionData,
)
from leadline.experiments.config.measure import Measure
from leadline.experiments.config.model import Encoder, ModelConfig
from leadline.experiments.config.position import Nope, Rope, Sinusoidal
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.train import TrainConfig
from leadline.experiments.data.source import open_source
from leadline.experiments.measure.evaluate import Models, TablesByLength
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.records.measurement import Point
from leadline.model.decoder import Decoder
from leadline.model.encoder_decoder import init_model
from leadline.model.mesh import make_mesh
from tests.model.weights import drawn

LENGTH = 16
ROPE = ModelConfig(layers=2, width=16, heads=2, kv_heads=1, hidden=16, position=Rope(base=100.0))
NOPE = ROPE.model_copy(update={"position": Nope()})
RASTER = ROPE.model_copy(update={"position": Rope(base=100.0, sections=(2, 2), grid=(4,))})
TRANSFORMER = ROPE.model_copy(update={"position": Sinusoidal(), "encoder": Encoder(layers=1)})
DATA: dict[str, Data] = {
    "text": TextData(corpus=("unread",), length=LENGTH, held_out=0.4, bos="fixed"),
    "backcopy": BackcopyData(vocabulary=8, triggers=2, length=LENGTH),
    "retrieval": RetrievalData(length=36, keys=40, values=10, tasks=("key_value", "copy")),
    "mixed": MixedData(corpus=("unread",), length=LENGTH, held_out=0.4, keys=12, values=2),
    "transduction": TransductionData(task="sort", size=6, symbols=4),
    "grid": GridData(sizes=(3, 4), colours=4, side=2, reach=1),
}
STREAM = {"tokens": 120, "initial_tokens": [0, 2], "text_positions": [2], "full_attention": 24, "recomputed": 4, "stride": 4}
TABLES: dict[str, dict[str, Any]] = {
    "text": {
        "windows": 12,
        "sink": {"length": 12},
        "ablation": {"hidden": [1, 4], "map": 8},
        "perplexity": {"lengths": [32], "windows": 8, "stride": 8, "last": 12, "extensions": ["pi"]},
        "streaming": STREAM,
        "vocabulary": {"bytes": 200},
        "frequency": {"bins": 3, "windows": 8},
        "inputs": {"sequences": 6},
        "context": {"lengths": [24], "windows": 2},
        "interventions": {"length": 16, "windows": 4, "hidden": [2], "heads": True},
        "prompts": {"lengths": [160], "depths": 2, "rows": 2},
        "languages": {},
    },
    "backcopy": {"windows": 12, "sink": {"length": LENGTH}, "ablation": {"hidden": [1], "map": LENGTH}},
    "retrieval": {"windows": 8, "retrieval": {"lengths": [36, 72], "depths": 8, "rows": 2}},
    "transduction": {"windows": 8, "transduction": {"sizes": [2, 4, 6, 9], "rows": 6}},
    "grid": {"windows": 8, "grid": {"factors": [[1, 1], [1, 2]], "rows": 30}},
    "mixed": {"windows": 4, "recall": {"lengths": [LENGTH, 24], "windows": 4, "rows": 24, "last": 8}},
}
MEASURES = {kind: Measure.model_validate(table) for kind, table in TABLES.items()}


def source_of(kind: str, folder: Path, **changes: object) -> Any:
    """The source of a kind of data, which may be changed; text is read from the folder."""
    data = DATA[kind].model_copy(update=changes)
    if isinstance(data, TextData | MixedData):
        data = data.model_copy(update={"corpus": (str(folder),)})
    return open_source(data, folder / "cache")


def arm(name: str, kind: str, model: ModelConfig | None = None, **changes: object) -> Arm:
    model = model or {"transduction": TRANSFORMER, "grid": RASTER}.get(kind, ROPE)
    train = TrainConfig(steps=1, batch=2, learning_rate=1e-3)
    return Arm(name=name, model=model, data=DATA[kind], train=train, measure=MEASURES[kind]).model_copy(update=changes)


def models_of(arms: Sequence[Arm], source: Any, seeds: Sequence[int]) -> Models:
    """Models with drawn weights, of one structure."""
    cfg = decoder_config(arms[0].model, source.vocabulary, arms[0].data.length)
    with jax.set_mesh(make_mesh()):
        params = {seed: jax.device_get(drawn(lambda: init_model(jax.random.key(0), cfg), seed)) for seed in set(seeds)}
    return Models(arms, [params[seed] for seed in seeds], source, cfg, [])


def points_of(arms: Sequence[Arm], source: Any) -> tuple[list[Point], Decoder]:
    """A point of the curves of models with the same drawn weights, and the weights."""
    curve = curve_of(arms[0].data)
    models = models_of(arms, source, [1] * len(arms))

    def point(params: Decoder, tables: TablesByLength, shared: Any) -> Any:
        return curve.point(params, tables, shared[0], shared[1], models.model, arms[0].measure)

    rows = models.tables_by_length(curve.lengths(arms[0]))
    return models.run("point", point, rows, (curve.batches(source, arms[0]), source.shared)), models.params[0]


def point_of(arm: Arm, source: Any) -> tuple[Point, Decoder]:
    """A point of the curves of a model with drawn weights, and the weights."""
    (point,), params = points_of([arm], source)
    return point, params
