"""The tasks: every answer is what a plain reader of the row finds, every row is well formed, and what does not fit is said."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import TASKS, RetrievalData, Task
from leadline.experiments.data.retrieval.sized import added, largest_size
from leadline.experiments.data.retrieval.source import SAMPLES, mixture
from leadline.experiments.data.retrieval.vocabulary import (
    ASK,
    AT_A_DEPTH,
    END,
    EQUALS,
    NEEDLE,
    OF_A_SIZE,
    PLUS,
    Batch,
    vocabulary_of,
)
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.errors import UserError

DATA = RetrievalData(length=40, keys=40, values=14, fillers=3)
# The least lengths: one token of the task, the context, and the question with its answer, less the last token.
SMALLEST = {
    "passkey": lambda t: 2 * t.symbols + 2,
    "multi_key": lambda t: (t.needles + 1) * (1 + t.symbols) + 1,
    "multi_query": lambda t: 4 * t.queries + 1,
    "multi_value": lambda t: 3 * t.answers + 2,
    "variable_tracking": lambda t: 3 * t.chains * (1 + t.hops) + 1 + t.hops + 2,
    "key_value": lambda t: 2 * (1 + t.symbols) + 1,
    "copy": lambda t: 4,  # noqa: ARG005
    "addition": lambda t: 7,  # noqa: ARG005
}


def _drawn(task: Task, *batch: Any, seed: int = 0, **more: Any) -> Sample:
    draw = jax.jit(lambda key: SAMPLES[task](key, Batch(*batch, **more)))
    return jax.device_get(draw(jax.random.key(seed)))


def _pairs(row: list[int], tasks: RetrievalData, symbols: int = 1) -> list[tuple[int, list[int]]]:
    """The keys of a row, each with the values after it."""
    v, ask = vocabulary_of(tasks), row.index(ASK)
    pairs = [(row[i], row[i + 1 : i + 1 + symbols]) for i in range(1, ask) if v.first_key <= row[i] < v.first_value]
    assert all(token >= v.first_value for _, value in pairs for token in value)
    if (per_key := tasks.values_per_key) and TASKS[row[0]] != "multi_value":
        assert all((token - v.first_keyed_value) // per_key == key - v.first_key for key, value in pairs for token in value)
    return pairs


def _expected(row: list[int], tasks: RetrievalData) -> list[int]:
    """What stands after the last question, found by reading the row from the left; -1 where it is no part of the answer."""
    v, ask = vocabulary_of(tasks), row.index(ASK)
    match TASKS[row[0]]:
        case "passkey":
            start = row.index(NEEDLE)
            return row[start + 1 : start + 1 + tasks.symbols]
        case "multi_key" | "key_value":
            return [-1, *dict(_pairs(row, tasks, tasks.symbols))[row[ask + 1]]]
        case "multi_query":
            known = dict(_pairs(row, tasks))
            return [token for key in row[ask + 1 :: 2] for token in (-1, *known[key])]
        case "multi_value":
            return [-1, *(value for key, (value,) in _pairs(row, tasks) if key == row[ask + 1])]
        case "variable_tracking":
            known, named = {row[ask + 1]}, []
            for i in (i for i in range(1, ask) if row[i] == EQUALS):
                if row[i + 1] in known:
                    known.add(row[i - 1])
                    named.append(row[i - 1])
            return [-1, *named]
        case "copy":
            return [*row[1:ask], END]
        case "addition":
            plus = row.index(PLUS)
            a, b = (sum((d - v.first_value) * 10**i for i, d in enumerate(x)) for x in (row[1:plus], row[plus + 1 : ask]))
            assert ask - plus == plus
            digits = f"{a + b:0{plus}d}"[::-1]
            return [*(v.first_value + int(d) for d in digits), END]


def _check(task: Task, sample: Sample, tasks: RetrievalData, length: int) -> None:
    tokens, weights, evidence = np.asarray(sample.tokens), np.asarray(sample.weights), np.asarray(sample.evidence)
    assert (tokens.dtype, weights.dtype, evidence.dtype) == (np.int32, np.float32, np.int32)
    assert weights.shape == evidence.shape == (len(tokens), length) == tokens[:, 1:].shape
    assert 0 <= tokens.min() <= tokens.max() < vocabulary_of(tasks).size
    for row, weight, seen in zip(tokens.tolist(), weights.tolist(), evidence.tolist(), strict=True):
        assert TASKS[row[0]] == task
        assert row.count(ASK) == 1
        ask = row.index(ASK)
        expected = _expected(row, tasks)
        targets = [0.0] * length
        for i, token in enumerate(expected, start=ask):
            if token >= 0:
                assert row[i + 1] == token
                targets[i] = 1.0
        assert weight == targets
        assert all(token == END for token in row[ask + 1 + len(expected) :])
        for t, place in enumerate(seen):
            if task == "addition" or not weight[t]:
                assert place == -1
            elif row[t + 1] == END:
                assert place == ask
            else:
                assert 0 < place < ask
                assert row[place] == row[t + 1]


SIZES = {"symbols": 3, "needles": 5, "queries": 6, "answers": 5, "chains": 3, "hops": 1}
OF_KEYS = DATA.model_copy(update=SIZES | {"values_per_key": 3})


CASES = (DATA.model_copy(update={"symbols": 2, "hops": 3}), 0), (OF_KEYS, 23)


@functools.cache
def _answers(task: Task, case: int) -> Sample:
    """400 rows, of the smallest length or of a longer one."""
    tasks, more = CASES[case]
    return _drawn(task, tasks, 400, SMALLEST[task](tasks) + more)


@pytest.mark.parametrize("case", [0, 1])
@pytest.mark.parametrize("task", TASKS)
def test_answers_are_what_a_reader_finds(task: Task, case: int) -> None:
    tasks, more = CASES[case]
    _check(task, jax.tree.map(lambda leaf: leaf[:20], _answers(task, case)), tasks, SMALLEST[task](tasks) + more)


@pytest.mark.parametrize("task", TASKS)
def test_too_short_a_length_is_named(task: Task) -> None:
    smallest = SMALLEST[task](DATA)
    for length in (1, smallest - 1):
        with pytest.raises(UserError, match=f"{task} does not fit into a length of {length}: the smallest is {smallest}"):
            _drawn(task, DATA, 2, length)


@pytest.mark.parametrize("task", AT_A_DEPTH)
def test_a_grid_of_depths_runs_from_the_first_place_to_the_last(task: Task) -> None:
    at = np.linspace(0, 1, 12, dtype=np.float32)
    sample = _drawn(task, DATA, 12, 45, at=jnp.asarray(at))
    _check(task, sample, DATA, 45)
    tokens, places = np.asarray(sample.tokens), np.asarray(sample.evidence)[:, -1]
    ask = int(np.flatnonzero(tokens[0] == ASK)[0])
    assert places[0] == 2  # the task, the needle's first token, its symbol
    assert places[-1] == ask - 1
    np.testing.assert_allclose(places, 2 + at * (ask - 3), atol=4)
    assert (np.diff(places) > 0).all()


@pytest.mark.parametrize("task", AT_A_DEPTH)
def test_a_depth_that_is_not_given_is_uniform(task: Task) -> None:
    places = np.asarray(_answers(task, 1).evidence)[:, -1]
    shares = (places - places.min()) / np.ptp(places)
    assert abs(shares.mean() - 0.5) < 0.08
    assert abs(shares.std() - 0.3) < 0.08  # of the real numbers up to 1 it is 0.29, of a few places more


@pytest.mark.parametrize("task", OF_A_SIZE)
def test_sizes_are_those_asked_for(task: Task) -> None:
    largest = largest_size(task, 40)
    assert largest is not None
    sample = _drawn(task, DATA, 5, 40, smallest=3, at=jnp.linspace(0, 1, 5))
    targets = np.asarray(sample.weights).sum(axis=1) - (1 if task == "copy" else 2)
    np.testing.assert_array_equal(targets, 3 + np.round(np.linspace(0, 1, 5) * (largest - 3)))
    drawn = np.asarray(_drawn(task, DATA, 3000, 40).weights).sum(axis=1) - (1 if task == "copy" else 2)
    assert (drawn.min(), drawn.max()) == (1, largest)
    counts = np.bincount(drawn.astype(int))[1:]
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())
    with pytest.raises(UserError, match="the smallest is"):
        _drawn(task, DATA, 2, 40, smallest=largest + 1)


def test_a_carry_runs_through_every_digit() -> None:
    numbers = (jnp.asarray([[int(d) for d in reversed(f"{number:09d}")]], jnp.int32) for number in (10**9 - 1, 1))
    assert np.asarray(jax.jit(added)(*numbers))[0].tolist() == [0] * 9 + [1]


def test_a_mixture_has_its_shares_and_whole_rows() -> None:
    names: tuple[Task, ...] = ("passkey", "copy", "addition")
    shares, rows = np.array([1.0, 2.0, 1.0]), 1000
    draw = jax.jit(lambda key: mixture(key, names, shares.tolist(), Batch(DATA, rows, 40)))
    sample = jax.device_get(draw(jax.random.key(0)))
    for share, task in zip(shares / shares.sum(), names, strict=True):
        of_task = np.flatnonzero(sample.tokens[:, 0] == TASKS.index(task))
        assert abs(len(of_task) - rows * share) < 5 * np.sqrt(rows * share)
        _check(task, jax.tree.map(lambda leaf, few=of_task[:20]: leaf[few], sample), DATA, 40)
