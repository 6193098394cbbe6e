"""Associative recall: what a row says, against a reader in plain Python that knows nothing of how it was drawn."""

import jax
import numpy as np
import pytest

from leadline.experiments.data.recall import Recall, sample
from leadline.experiments.data.sample import Sample

TASK = Recall(keys=40, values=3, first=100)
LENGTH, ROWS = 64, 200


@pytest.fixture(scope="module")
def drawn() -> Sample:
    draw = jax.jit(lambda key: sample(key, TASK, ROWS, LENGTH))
    return jax.device_get(draw(jax.random.key(3)))


def _read(row: list[int]) -> dict[int, int]:
    """Query -> evidence: where a key was seen before, and its value after it."""
    seen: dict[int, int] = {}
    answers = {}
    for place in range(1, len(row) - 1, 2):
        if row[place] in seen:
            answers[place] = seen[row[place]] + 1
        else:
            seen[row[place]] = place
    return answers


def test_a_reader_finds_every_answer_at_its_evidence_and_nowhere_else(drawn: Sample) -> None:
    arrays = map(np.asarray, (drawn.tokens, drawn.evidence, drawn.weights))
    for row, evidence, weights in zip(*arrays, strict=True):
        answers = _read(row.tolist())
        assert answers == {int(t): int(evidence[t]) for t in np.flatnonzero(evidence >= 0)} != {}
        np.testing.assert_array_equal(weights, np.isin(np.arange(LENGTH), list(answers)).astype(np.float32))
        for t, source in answers.items():
            np.testing.assert_array_equal(np.flatnonzero(row[: t + 1] == row[t + 1]), [source])
            np.testing.assert_array_equal(np.flatnonzero(row[: t + 1] == row[t]), [source - 1, t])


def test_ids_are_the_tasks_own_and_values_drawn_anew_in_every_row(drawn: Sample) -> None:
    tokens = np.asarray(drawn.tokens)
    assert TASK.size == 1 + 40 * (1 + 3)
    np.testing.assert_array_equal(tokens[:, 0], TASK.marker)
    keys, values = tokens[:, 1::2] - TASK.first, tokens[:, 2::2] - TASK.first - TASK.keys
    assert (keys.min(), keys.max(), tokens.max()) == (0, 39, TASK.marker)
    np.testing.assert_array_equal(values // 3, keys)  # a value is one of its key's own
    assert set((values[keys == 0] % 3).tolist()) == {0, 1, 2}
    counts = np.bincount((values % 3).reshape(-1), minlength=3)
    assert (np.abs(counts / counts.sum() - 1 / 3) < 0.03).all()


def test_every_octave_of_distance_is_asked_about(drawn: Sample) -> None:
    """The row's end takes from the far octaves: of a distance of n slots only slots - n places are left."""
    evidence = np.asarray(drawn.evidence)
    distance = (np.arange(LENGTH)[None] - evidence)[evidence >= 0]
    assert (distance % 2 == 1).all()
    octaves = np.histogram((distance + 1) // 2, [1, 2, 4, 8, 16, 32])[0] / len(distance)  # in slots
    assert octaves.min() > 0.04
    assert octaves[:4].max() < 2 * octaves[:4].min()
    assert 0.2 < len(distance) / (ROWS * LENGTH / 2) < 0.5
