"""Associative recall: what a row says, against a reader in plain Python that knows nothing of how it was drawn."""

import jax
import numpy as np
import pytest

from leadline.experiments.data.recall import NEVER, Recall, log_uniform, sample, sources
from leadline.experiments.data.sample import Sample

TASK = Recall(keys=40, values=3, first=100)
LENGTH, ROWS = 64, 200
compiled = jax.jit(sample, static_argnums=(1, 2, 3))


@pytest.fixture(scope="module")
def drawn() -> Sample:
    return jax.device_get(compiled(jax.random.key(3), TASK, ROWS, LENGTH))


def _read(row: list[int]) -> dict[int, int]:
    """Query -> evidence: where a key was seen before, and its value behind it."""
    seen: dict[int, int] = {}
    found = {}
    for place in range(1, len(row) - 1, 2):
        if row[place] in seen:
            found[place] = seen[row[place]] + 1
        else:
            seen[row[place]] = place
    return found


def test_a_reader_finds_every_answer_at_its_evidence(drawn: Sample) -> None:
    for row, evidence, weights in zip(drawn.tokens, np.asarray(drawn.evidence), np.asarray(drawn.weights), strict=True):
        found = _read(row.tolist())
        assert found == {int(t): int(evidence[t]) for t in np.flatnonzero(evidence >= 0)}
        assert all(row[t + 1] == row[source] for t, source in found.items())
        np.testing.assert_array_equal(weights, np.isin(np.arange(LENGTH), list(found)).astype(np.float32))
        assert len(found) > 0


def test_an_answer_has_exactly_one_earlier_occurrence(drawn: Sample) -> None:
    tokens, evidence = np.asarray(drawn.tokens), np.asarray(drawn.evidence)
    for row, t in zip(*np.nonzero(evidence >= 0), strict=True):
        before = tokens[row, : t + 1]
        np.testing.assert_array_equal(np.flatnonzero(before == tokens[row, t + 1]), [evidence[row, t]])
        np.testing.assert_array_equal(np.flatnonzero(before == tokens[row, t]), [evidence[row, t] - 1, t])


def test_ids_are_the_tasks_own(drawn: Sample) -> None:
    tokens = np.asarray(drawn.tokens)
    assert TASK.size == 1 + 40 * (1 + 3)
    np.testing.assert_array_equal(tokens[:, 0], TASK.marker)
    keys, values = tokens[:, 1::2] - TASK.first, tokens[:, 2::2] - TASK.first - TASK.keys
    assert keys.min() == 0
    assert keys.max() == 39
    np.testing.assert_array_equal(values // 3, keys)  # a value is one of its key's own
    assert tokens.max() == TASK.marker
    assert tokens.min() >= TASK.first


def test_values_are_drawn_anew_in_every_row(drawn: Sample) -> None:
    tokens = np.asarray(drawn.tokens)
    chosen = (tokens[:, 2::2] - TASK.first - TASK.keys) % 3
    of_first_key = chosen[tokens[:, 1::2] == TASK.first]
    assert set(of_first_key.tolist()) == {0, 1, 2}
    counts = np.bincount(chosen.reshape(-1), minlength=3)
    assert (np.abs(counts / counts.sum() - 1 / 3) < 0.03).all()


def test_no_slot_is_a_source_twice_and_every_source_defines() -> None:
    source = np.asarray(jax.jit(sources, static_argnums=(1, 2))(jax.random.key(0), 50, 100))
    for row in source:
        asked = row[row != NEVER]
        assert len(set(asked.tolist())) == len(asked)
        assert (row[asked] == NEVER).all()
        assert (asked < np.flatnonzero(row != NEVER)).all()


def test_distances_are_log_uniform() -> None:
    slots = 64
    found = np.asarray(log_uniform(jax.random.key(1), 2000, slots)).reshape(-1)
    assert found.min() == 1
    n = np.arange(1, slots)
    expected = np.log((n + 1) / n) / np.log(slots) * len(found)
    assert expected.sum() == pytest.approx(len(found))
    counts = np.bincount(found, minlength=slots)[1:]
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_every_octave_of_distance_is_asked_about() -> None:
    """The row's end takes from the far octaves: of a distance of n slots only slots - n places are left."""
    found = jax.device_get(compiled(jax.random.key(5), Recall(64, 4), 400, 128))
    evidence = np.asarray(found.evidence)
    distance = (np.arange(128)[None] - evidence)[evidence >= 0]
    assert (distance % 2 == 1).all()
    octaves = np.histogram((distance + 1) // 2, [1, 2, 4, 8, 16, 32, 64])[0] / len(distance)  # in slots
    assert octaves.min() > 0.04
    assert octaves[:5].max() < 2 * octaves[:5].min()
    assert 0.2 < len(distance) / (400 * 64) < 0.5


@pytest.mark.parametrize(("length", "message"), [(63, "even length"), (2, "even length"), (82, "41 slots")])
def test_rows_that_cannot_be_are_refused(length: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample(jax.random.key(0), TASK, 1, length)
