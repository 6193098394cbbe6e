"""What is kept of answers that are hit by rule."""

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.config.measure import Measure, RetrievalMeasure
from leadline.experiments.data.retrieval.source import RetrievalSource, sizes_asked
from leadline.experiments.data.retrieval.vocabulary import AT_A_DEPTH, OF_A_SIZE
from leadline.experiments.measure.kinds.registry import check_data
from leadline.experiments.measure.kinds.retrieval import accuracies, questions
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.quantities import QUANTITIES
from leadline.experiments.runtime.errors import UserError
from tests.experiments.measure.kinds.toys import arm

DATA = RetrievalData(length=36, keys=40, values=10)
SETTINGS = RetrievalMeasure(lengths=(36,), depths=8, rows=2)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_kept_follows_the_hits(task: Task) -> None:
    """A model that hits what lies in the first half of the context, or is of the smaller sizes, and nothing else."""
    sample = jax.device_get(questions(RetrievalSource(DATA), task, 36, SETTINGS))
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


@pytest.mark.parametrize("task", OF_A_SIZE)
def test_sizes_are_those_that_are_asked(task: Task) -> None:
    source, more = RetrievalSource(DATA), 1 if task == "copy" else 2
    for length in (36, 72):
        sample = jax.device_get(questions(source, task, length, SETTINGS))
        point = accuracies(task, sample.weights > 0, sample, SETTINGS, 36)
        sizes = point[reading("size", task=task, length=length)]
        np.testing.assert_array_equal(sizes, sizes_asked(task, 36, length, 8))
        np.testing.assert_array_equal(np.repeat(sizes, 2), sample.weights.sum(axis=1) - more)


def test_questions_that_do_not_fit_are_said_before_training() -> None:
    measure = Measure(retrieval=RetrievalMeasure(lengths=(36, 2000)))
    with pytest.raises(UserError, match="key_value needs 998 different keys, and there are 40"):
        check_data(RetrievalSource(DATA), arm("rope", "retrieval", measure=measure))
