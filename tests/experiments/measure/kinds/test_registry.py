"""What holds for every curve and every measurement at the end, and each against the same computed another way."""

import functools
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.measure import Measure
from leadline.experiments.config.measured import MEASURED
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.scaling import Extension
from leadline.experiments.config.to_model import extended
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.kinds.recall import predicted_reach
from leadline.experiments.measure.kinds.registry import FINALS, check_data, final_points
from leadline.experiments.measure.kinds.streaming import StreamPolicy, stream_losses
from leadline.experiments.measure.perplexity import position_edges
from leadline.experiments.records.measurement import Point, measurements_of, reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.model.decoder import apply_decoder
from leadline.model.embedding import token_losses
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.toys import DATA, LENGTH, MEASURES, NOPE, ROPE, arm, models_of, point_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")
PROGRAMS = {
    "text": [
        *(
            "ablation",
            "context of 24",
            "rows of the embedding",
            "loss by frequency",
            "inputs",
            "interventions",
            "early decoding",
            "perplexity at 32",
            "prompts of 160",
        ),
        *("recomputed", "full attention", "stream", "bits per byte"),
    ],
    "backcopy": ["ablation"],
    "retrieval": ["retrieval at 36", "retrieval at 72"],
    "mixed": ["recall at 16", "recall at 24"],
    "transduction": ["sizes in 16", "sizes in 22"],
    "grid": ["grid of 3 by 4", "grid of 3 by 8"],
}
OF_STARTS = {"document_start_mass", "document_start_share"}
OF_LAYERS = {"sink_rate", "first_token_mass", "sink_logit_mass", "activation_ratio", "value_drain_ratio", "residual_norm_ratio"}
CURVES = {
    "text": {"loss", "bits_per_byte"} | OF_STARTS | OF_LAYERS,
    "backcopy": {"loss", "backcopy_loss", "bigram_loss", "bigram_excess", "bos_mass", "bos_value_ratio"} | OF_LAYERS,
    "retrieval": {"loss", "accuracy"},
    "mixed": {"loss", "recall_loss", "recall_accuracy"},
    "transduction": {"loss", "accuracy", "cross_bos_mass", "cross_eos_mass", "cross_even_mass"},
    "grid": {"loss", "accuracy"},
}
# The program of a task is much that of text, and each takes seconds to compile.
AT_THE_END = [pytest.param(kind, marks=[] if kind in ("text", "retrieval") else [pytest.mark.slow]) for kind in DATA]
Measured = Callable[[str], tuple[Models, list[Point]]]


@pytest.fixture(scope="module")
def measured(folder: Path) -> Measured:
    """Three models of a kind of data and what is measured of them at the end.

    The second has other weights, and other positions or another first token; the third is the first once more.
    """

    @functools.cache
    def of(kind: str) -> tuple[Models, list[Point]]:
        source = source_of(kind, folder)
        other = arm("other", kind, NOPE) if kind in ("text", "retrieval") else arm("other", kind)
        if kind == "backcopy":
            other = other.model_copy(update={"data": DATA[kind].model_copy(update={"bos": "absent"})})
        models = models_of([arm("rope", kind), other, arm("rope", kind)], source, (1, 2, 1))
        return models, final_points(models)

    return of


@pytest.mark.parametrize("kind", DATA)
def test_curves_measure_finite_quantities_of_the_table(kind: str, folder: Path) -> None:
    point, _ = point_of(arm("rope", kind), source_of(kind, folder))
    assert {key.quantity for key in point} == CURVES[kind]
    assert not any(key.dims for key in point)
    for key, value in point.items():
        assert value.ndim == len(QUANTITIES[key.quantity].axes), key
    assert all(np.isfinite(value).all() for value in point.values())


@pytest.mark.parametrize("kind", AT_THE_END)
def test_finals_measure_quantities_of_the_table_with_their_axes(kind: str, measured: Measured) -> None:
    models, points = measured(kind)
    assert models.programs == PROGRAMS[kind]
    for point in points:
        assert {reading("windows", length=models.arms[0].data.length)} <= point.keys()
        for key, value in point.items():
            assert value.ndim == len(QUANTITIES[key.quantity].axes), key
            assert "without" not in dict(key.dims), key  # so few windows are of too few documents
        numbers = measurements_of(point)
        assert len({entry.reading for entry in numbers}) == len(numbers)


@pytest.mark.parametrize("kind", AT_THE_END)
def test_what_is_measured_belongs_to_its_model(kind: str, measured: Measured) -> None:
    _, (first, other, again) = measured(kind)
    assert first.keys() == again.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(again[key], value, err_msg=str(key))
    least = 2 if kind in ("transduction", "grid") else 9
    assert sum(not np.array_equal(other[key], first[key]) for key in other.keys() & first.keys()) >= least


def test_every_table_of_measure_has_its_final_and_is_tested() -> None:
    optional = {name for name, field in Measure.model_fields.items() if field.default is None}
    assert set(FINALS) == set(MEASURED) == optional
    assert optional == {name for measure in MEASURES.values() for name, table in measure if name in optional and table}


@pytest.mark.parametrize("kind", DATA)
def test_what_is_not_asked_for_is_not_measured_and_what_is_asked_for_passes_the_check(kind: str, folder: Path) -> None:
    check_data(source_of(kind, folder), arm("rope", kind))
    plain = arm("rope", kind, measure=Measure(windows=4, sink=MEASURES[kind].sink))
    models = models_of([plain], source_of(kind, folder), (1,))
    (point,) = final_points(models)
    assert {key.quantity for key in point} <= {"windows", "documents"}
    assert models.programs == []


def losses_of(models: Models, windows: np.ndarray, model: ModelConfig = ROPE) -> np.ndarray:
    """The losses of the first model, of windows one at a time."""
    params, row = jax.tree.map(jnp.asarray, models.params[0]), tables(model, LENGTH, windows.shape[1] - 1)
    run = jax.jit(lambda ids: token_losses(apply_decoder(params, ids[None, :-1], row, models.model)[0], ids[None, 1:])[0])
    with jax.set_mesh(make_mesh()):
        return np.array([run(jnp.asarray(window)) for window in windows], np.float64)


@pytest.mark.parametrize("extension", [None, "pi"])
def test_perplexities_are_those_of_single_windows(measured: Measured, extension: Extension | None) -> None:
    models, (point, nope, _) = measured("text")
    model = ROPE if extension is None else extended(ROPE, extension, 2.0)
    assert model is not None
    dims = {"length": 32} | ({"extension": extension} if extension else {})
    losses = losses_of(models, models.source.text.held_out(32, 8, 8).windows, model)
    assert point[reading("perplexity", **dims)] == pytest.approx(math.exp(losses[:, -8:].mean()), rel=1e-4)
    last = point[reading("perplexity", protocol="last", last=12, **dims)]
    assert last == pytest.approx(math.exp(losses[:, -8:].mean()), rel=1e-4)  # of the last 12 the stride counts 8
    by_position = [part.mean() for part in np.split(losses.mean(axis=0), position_edges(32)[1:-1])]
    np.testing.assert_allclose(point[reading("loss_by_position", **dims)], by_position, rtol=1e-4)
    assert point[reading("windows", length=32, of="perplexity")] == 8
    assert (reading("perplexity", **dims) in nope) == (extension is None)
    assert point[reading("sink_rate", length=32)].shape == (2, 2)


def test_perplexities_are_those_of_a_stream_in_one_piece(measured: Measured) -> None:
    models, (point, *_) = measured("text")
    settings, row, params = MEASURES["text"].streaming, tables(ROPE, LENGTH), jax.tree.map(jnp.asarray, models.params[0])
    assert settings is not None
    stream = models.source.stream(settings.tokens)
    text = stream.windows[0]
    edges, start = point[reading("position_edges", span="stream")], settings.full_attention
    assert point[reading("documents", span="stream")] == stream.document_count
    chunks = jnp.asarray(text[None, :-1]), jnp.asarray(text[None, 1:])
    run = jax.jit(lambda policy: stream_losses(params, row, policy, chunks, models.model, 2))
    for kept, positions in ((0, "cache"), (2, "cache"), (2, "text")):
        policy = StreamPolicy(jnp.int32(kept), jnp.int32(LENGTH - kept), jnp.bool_(positions == "cache"))
        with jax.set_mesh(make_mesh()):
            losses = np.asarray(run(policy), np.float64).reshape(-1)
        dims = {"policy": "streaming", "initial_tokens": kept, "positions": positions}
        for span, part in (("stream", losses), ("start", losses[:start])):
            assert point[reading("perplexity", span=span, **dims)] == pytest.approx(math.exp(part.mean()), rel=1e-4)
        by_place = [part.mean() for part in np.split(losses, edges[1:-1])]
        np.testing.assert_allclose(point[reading("loss_by_position", span="stream", **dims)], by_place, rtol=1e-4)
    of_full = point[reading("perplexity", policy="full", span="start")]
    assert of_full == pytest.approx(math.exp(losses_of(models, text[None, : start + 1]).mean()), rel=1e-4)


def test_positions_of_the_cache_and_of_the_text_differ_where_there_are_positions_of_tokens(measured: Measured) -> None:
    _, (rope, nope, _) = measured("text")
    dims = {"policy": "streaming", "initial_tokens": 2, "span": "stream"}
    in_cache, in_text = (reading("perplexity", positions=positions, **dims) for positions in ("cache", "text"))
    assert nope[in_cache] == pytest.approx(float(nope[in_text]), rel=1e-6)
    assert rope[in_cache] != rope[in_text]


def test_what_is_recomputed_is_a_window_up_to_each_token(measured: Measured) -> None:
    models, (point, *_) = measured("text")
    settings = MEASURES["text"].streaming
    assert settings is not None
    text = models.source.stream(settings.tokens).windows[0]
    edges = point[reading("position_edges", span="sampled")]
    losses = point[reading("loss_by_position", policy="recomputed", span="sampled")]
    assert np.isfinite(losses).all()
    # Of the last bin one window is read, which ends with the first whole segment of `stride` tokens in it.
    end = int(-(-edges[-2] // settings.stride) + 1) * settings.stride
    window = text[None, end - LENGTH : end + 1].copy()
    window[0, 0] = text[0]  # BOS in front, as in training
    assert losses[-1] == pytest.approx(losses_of(models, window)[0, -settings.stride :].mean(), rel=1e-4)


def test_bytes_have_a_bit_for_each_of_their_nats_over_ln_2(measured: Measured) -> None:
    _, (point, *_) = measured("text")
    assert point[reading("vocabulary_size")] == 259
    assert point[reading("bytes_per_token")] == pytest.approx(1, abs=0.05)  # EOS has no bytes
    assert 5 < point[reading("bits_per_byte")] < 20
    assert 0 < point[reading("embedding_share")] < 1
    for domain in ("code", "prose"):
        assert point[reading("unknown_share", domain=domain)] == 0


def test_bins_of_distance_add_up_to_all_answers(measured: Measured) -> None:
    _, (point, *_) = measured("mixed")
    dims = [dict(key.dims) for key in point if key.quantity == "answers" and ("length", 24) in key.dims]
    edges = sorted(entry["distance"] for entry in dims if "distance" in entry)
    assert edges == [2, 4, 5, 8, 11, 16, 22, 32]
    counts = np.array([point[reading("answers", length=24, distance=edge)] for edge in edges])
    shares = np.array([point[reading("recall_accuracy", length=24, distance=edge)] for edge in edges])
    assert counts.sum() == point[reading("answers", length=24)] > 0
    right = np.sum(np.where(counts > 0, shares, 0) * counts)
    assert point[reading("recall_accuracy", length=24)] == pytest.approx(right / counts.sum())


def test_recall_is_parted_at_the_predicted_reach(measured: Measured) -> None:
    models, (point, *_) = measured("mixed")
    reach = point[reading("predicted_reach")]
    assert reach == predicted_reach(models.arms[0])
    assert (reading("recall_accuracy", length=24, part="beyond") in point) == (reach < 24)
