"""What holds for every curve and every measurement at the end, whatever it measures."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from leadline.experiments.config.measure import Measure
from leadline.experiments.measure.kinds.registry import FINALS, check_data, final_points
from leadline.experiments.records.measurement import measurements_of, reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.model.mesh import make_mesh
from tests.experiments.measure.kinds.conftest import Measured
from tests.experiments.measure.kinds.toys import DATA, MEASURES, arm, models_of, point_of, source_of

pytestmark = pytest.mark.usefixtures("in_use")
PROGRAMS = {
    "text": ["ablation", "perplexity at 16", "perplexity at 32", "recomputed", "full attention", "stream", "bits per byte"],
    "backcopy": ["ablation"],
    "retrieval": ["retrieval at 36", "retrieval at 72"],
    "mixed": ["recall at 16", "recall at 24"],
}
OF_LAYERS = {"sink_rate", "first_token_mass", "sink_logit_mass", "activation_ratio", "value_drain_ratio", "residual_norm_ratio"}
CURVES = {
    "text": {"loss", "bits_per_byte"} | OF_LAYERS,
    "backcopy": {"loss", "backcopy_loss", "bigram_loss", "bigram_excess", "bos_mass", "bos_value_ratio"} | OF_LAYERS,
    "retrieval": {"loss", "accuracy"},
    "mixed": {"loss", "recall_loss", "recall_accuracy"},
}


@pytest.mark.parametrize("kind", DATA)
def test_curves_measure_finite_quantities_of_the_table(kind: str, folder: Path) -> None:
    point, _ = point_of(arm("rope", kind), source_of(kind, folder))
    assert {key.quantity for key in point} == CURVES[kind]
    assert not any(key.dims for key in point)
    for key, value in point.items():
        assert value.ndim == len(QUANTITIES[key.quantity].axes), key
        assert np.isfinite(value).all(), key
    assert all(entry.value is not None for entry in measurements_of(point))


@pytest.mark.parametrize("kind", DATA)
def test_finals_measure_quantities_of_the_table_with_their_axes(kind: str, measured: Callable[[str], Measured]) -> None:
    models, points = measured(kind)
    assert models.programs == PROGRAMS[kind]
    for point in points:
        assert {reading("windows", length=models.arms[0].data.length)} <= point.keys()
        for key, value in point.items():
            assert value.ndim == len(QUANTITIES[key.quantity].axes), key
        numbers = measurements_of(point)
        assert len({entry.reading for entry in numbers}) == len(numbers)


@pytest.mark.parametrize("kind", DATA)
def test_what_is_measured_belongs_to_its_model(kind: str, measured: Callable[[str], Measured]) -> None:
    _, (first, other, again) = measured(kind)
    assert first.keys() == again.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(again[key], value, err_msg=str(key))
    assert sum(not np.array_equal(other[key], first[key]) for key in other.keys() & first.keys()) > 8


def test_every_table_of_measure_has_its_final_and_is_tested() -> None:
    optional = {name for name, field in Measure.model_fields.items() if field.default is None}
    assert set(FINALS) == optional
    assert optional == {name for measure in MEASURES.values() for name, table in measure if name in optional and table}


@pytest.mark.parametrize("kind", DATA)
def test_what_is_not_asked_for_is_not_measured_and_what_is_asked_for_passes_the_check(kind: str, folder: Path) -> None:
    check_data(source_of(kind, folder), arm("rope", kind))
    plain = arm("rope", kind, measure=Measure(windows=4, sink=MEASURES[kind].sink))
    with jax.set_mesh(make_mesh()):
        models = models_of([plain], source_of(kind, folder), (1,))
    (point,) = final_points(models)
    assert {key.quantity for key in point} <= {"windows", "documents"}
    assert models.programs == []
