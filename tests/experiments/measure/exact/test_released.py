"""The numbers of a small model, by hand."""

from typing import Any

import numpy as np
import pytest

from leadline.experiments.config.base import validated
from leadline.experiments.config.exact import Released
from leadline.experiments.measure.exact.released import jobs
from leadline.experiments.records.measurement import Point, reading
from leadline.experiments.runtime.errors import UserError
from leadline.model.base_bound.sums import similarity_sums
from leadline.model.positions.frequencies import inverse_frequencies
from tests.experiments.measure.exact.jobs import computed, points_of

MODEL: dict[str, Any] = {"layers": 2, "width": 1024, "heads": 16, "kv_heads": 4, "position": {"kind": "rope", "base": 10.0}}
DECODER = {"label": "a decoder", "vocabulary": 1024, "context": 2048, "trained": 512, "model": MODEL}
ENCODER = {"label": "an encoder", "vocabulary": 1024, "context": 512, "model": MODEL | {"position": "nope"}, "encoder": True}
EXACT = Released.model_validate({"bits": [16, 4], "lengths": [1024, 4096], "models": {"decoder": DECODER, "encoder": ENCODER}})


@pytest.fixture(scope="module")
def points() -> dict[str, Point]:
    return points_of(jobs(EXACT))


def test_parts_sum_to_all_parameters_which_the_record_states(points: dict[str, Point]) -> None:
    for name, point in points.items():
        parts = [float(value) for key, value in point.items() if key.quantity == "parameter_count" and key.dims]
        assert sum(parts) == point[reading("parameter_count")] == computed(jobs(EXACT))[name].parameters


def test_memory_is_stated_for_each_width_of_a_number(points: dict[str, Point]) -> None:
    """2^20 weights of embedding; 2 · 4 · 64 numbers a token in each of 2 layers."""
    point = points["decoder"]
    assert [point[reading("embedding_memory", bits=bits)] for bits in (16, 4)] == [2.0, 0.5]
    assert [point[reading("cache_per_token", bits=bits)] for bits in (16, 4)] == [2.0, 0.5]
    assert point[reading("cache_memory", bits=16)] == 2048 * 2 / 2**20
    assert point[reading("cache_share")] == 0.25


def test_scores_and_flops_of_a_text_up_to_the_context(points: dict[str, Point]) -> None:
    """Of 1,024 tokens: 16 heads, 1,024 channels of scores and as many of values, two layers, by hand."""
    point, pairs = points["decoder"], 1024 * 1025 // 2
    assert {dict(key.dims)["length"] for key in point if key.quantity == "score_memory"} == {1024}
    assert point[reading("score_memory", length=1024)] == 4 * 16 * 2**20 / 2**30
    assert point[reading("text_cache", length=1024, bits=16)] == 1024 * 2 / 2**20
    attention = 2 * 2 * (1024 + 1024) * pairs
    assert point[reading("attention_share", length=1024)] == pytest.approx(
        attention / point[reading("prefill_flops", length=1024)]
    )


def test_the_base_is_tested_below_the_context_that_it_was_trained_at(points: dict[str, Point]) -> None:
    curve = similarity_sums(inverse_frequencies(64, 10.0), 512)
    point = points["decoder"]
    assert point[reading("violations")] == np.sum(curve < 0)
    assert point[reading("first_violation")] == np.flatnonzero(curve < 0)[0]


def test_an_encoder_without_rope_has_no_cache_and_no_base(points: dict[str, Point]) -> None:
    quantities = {key.quantity for key in points["encoder"]}
    assert quantities == {"context", "parameter_count", "active_parameters", "embedding_share", "embedding_memory"}


@pytest.mark.parametrize(("changes", "tested"), [({}, 128), ({"windowed": [True, False]}, 512), ({"window": 1024}, 512)])
def test_a_base_is_tested_no_farther_than_the_window_of_all_layers(changes: dict[str, Any], tested: int) -> None:
    model = DECODER | {"model": MODEL | {"window": 128} | changes}
    point = points_of(jobs(Released.model_validate({"models": {"decoder": model}})))["decoder"]
    assert point[reading("violations")] == np.sum(similarity_sums(inverse_frequencies(64, 10.0), tested) < 0)
    assert point[reading("context")] == 2048


def test_two_models_of_one_shape_are_refused() -> None:
    with pytest.raises(UserError, match=r"models\.other has the shape of models\.decoder: leave one of them out"):
        validated(Released, {"models": {"decoder": DECODER, "other": DECODER | {"label": "another decoder"}}}, "a file")


def test_neither_the_label_nor_the_name_of_a_model_is_one_of_its_settings() -> None:
    renamed = EXACT.model_copy(update={"models": {"y": EXACT.models["decoder"].model_copy(update={"label": "x"})}})
    (first, _), (again,) = jobs(EXACT), jobs(renamed)
    assert first.settings == again.settings
    assert [(job.name, job.label) for job in (first, again)] == [("decoder", "a decoder"), ("y", "x")]
