"""What is kept of answers that are hit by rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.config.measure import Measure, RetrievalMeasure
from leadline.experiments.data.retrieval.source import RetrievalSource
from leadline.experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.measure.kinds.retrieval import (
    accuracies,
    by_bin,
    depths,
    distances,
    grid_edges,
    hits,
    right_answers,
)
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.runtime.errors import UserError
from tests.experiments.measure.kinds.toys import arm

DATA = RetrievalData(length=36, keys=40, values=10)
SETTINGS = RetrievalMeasure(lengths=(36,), depths=8, rows=2)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_kept_follows_the_hits(task: Task) -> None:
    """A model that hits what lies in the first half of the context, or is of the smaller sizes, and nothing else."""
    sample = jax.device_get(RetrievalSource(DATA).questions(task, 36, SETTINGS.depths, SETTINGS.rows))
    of_answers = task in AT_A_DEPTH + OF_A_SIZE
    early = (np.arange(16) < 8)[:, None] if of_answers else sample.evidence / 36 < 0.5
    hit = np.broadcast_to(early, sample.weights.shape) & (sample.weights > 0)
    point = {}
    for key, value in accuracies(task, hit, sample, SETTINGS, 36).items():
        dims = dict(key.dims)
        assert (dims.pop("task"), dims.pop("length")) == (task, 36)
        assert value.ndim == len(QUANTITIES[key.quantity].axes)
        point[reading(key.quantity, **dims)] = value
    assert point[reading("answers")] == 16
    axis = "size" if task in OF_A_SIZE else "depth"
    assert point[reading(axis)].shape == (8,)
    if task in OF_A_SIZE:  # each is asked twice, and its answer ends with a token more, or two
        asked = sample.weights.sum(axis=1) - (1 if task == "copy" else 2)
        np.testing.assert_array_equal(np.repeat(point[reading("size")], 2), asked)
    if of_answers:
        assert point[reading("accuracy")] == 0.5
        np.testing.assert_array_equal(point[reading(f"accuracy_by_{axis}")], [1] * 4 + [0] * 4)
        np.testing.assert_array_equal(point[reading(f"answers_by_{axis}")], 2)
    else:
        shares = point[reading("token_accuracy_by_depth")]
        np.testing.assert_array_equal(shares[np.isfinite(shares)][:2], 1)
        assert not shares[4:][np.isfinite(shares[4:])].any()
        assert point[reading("tokens_by_depth")].sum() == (sample.weights > 0).sum()
    parts = [float(point[reading("accuracy", part=part)]) for part in ("first", "middle", "last") if task in AT_A_DEPTH]
    assert parts == ([1.0, 0.5, 0.0] if task in AT_A_DEPTH else [])
    assert (reading("token_accuracy_by_distance") in point) == (task != "addition")


def test_questions_that_do_not_fit_are_said_before_training() -> None:
    measure = Measure(retrieval=RetrievalMeasure(lengths=(36, 2000)))
    with pytest.raises(UserError, match="key_value needs 998 different keys, and there are 40"):
        check_data(RetrievalSource(DATA), arm("rope", "retrieval", measure=measure))


def test_an_answer_is_right_if_all_of_its_tokens_are() -> None:
    targets = jnp.asarray([[1, 2, 3], [1, 2, 3], [1, 2, 3], [0, 2, 3]], jnp.int32)
    said = np.array([[1, 2, 3], [0, 2, 3], [1, 2, 0], [0, 2, 3]])
    found = hits(jnp.asarray(np.eye(4, dtype=np.float32)[said] * 3 - 1), targets)
    np.testing.assert_array_equal(found, [[1, 1, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]])
    weights = jnp.asarray([[0, 1, 1]] * 3 + [[1, 1, 1]], jnp.float32)  # the second row is wrong where nothing was asked
    np.testing.assert_array_equal(right_answers(found, weights), [True, True, False, True])
    np.testing.assert_array_equal(hits(jnp.zeros((1, 2, 3)), targets[:1, :2] - 1), [[True, False]])  # the lowest id is said


def test_bins_count_what_is_in_them() -> None:
    evidence = np.array([[-1, 0, 1, 3], [-1, -1, 2, 0]])
    np.testing.assert_array_equal(depths(evidence), [[np.nan, 0.0, 0.25, 0.75], [np.nan, np.nan, 0.5, 0.0]])
    np.testing.assert_array_equal(distances(evidence), [[np.nan, 1, 1, 0], [np.nan, np.nan, 0, 3]])
    right, place = np.array([True, False, True, True, True]), np.array([0.0, 0.2, 0.5, 1.0, np.nan])
    shares, counts = by_bin(right, place, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    np.testing.assert_array_equal(counts, [2, 0, 1, 1])
    np.testing.assert_array_equal(shares, [0.5, np.nan, 1.0, 1.0])


def test_each_point_of_a_grid_has_its_bin() -> None:
    for points in range(2, 60):
        _, counts = by_bin(np.ones(points, bool), np.linspace(0, 1, points), grid_edges(points))
        np.testing.assert_array_equal(counts, 1)
    with pytest.raises(ValueError, match="a grid of 1 points"):
        grid_edges(1)
