"""The tasks: every answer is what a plain reader of the row finds, every row is well formed, and what does not fit is said."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.experiments.config.data import RetrievalData
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
    TASKS,
    Batch,
    Task,
    Vocabulary,
    vocabulary_of,
)
from leadline.experiments.data.sample import Sample
from leadline.experiments.runtime.errors import UserError

DATA = RetrievalData(length=40, keys=40, values=14, fillers=3)
compiled_added = jax.jit(added)
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


def _kind(token: int, v: Vocabulary) -> str:
    if token < v.first_filler:
        return "mark"
    return "filler" if token < v.first_key else "key" if token < v.first_value else "value"


def _pairs(row: list[int], ask: int, v: Vocabulary, symbols: int) -> list[tuple[int, list[int]]]:
    pairs = [(row[i], row[i + 1 : i + 1 + symbols]) for i in range(1, ask) if _kind(row[i], v) == "key"]
    assert all(_kind(token, v) == "value" for _, value in pairs for token in value)
    if (per_key := v.values_per_key) and TASKS[row[0]] != "multi_value":
        assert all((token - v.first_keyed_value) // per_key == key - v.first_key for key, value in pairs for token in value)
    return pairs


def _expected(row: list[int], tasks: RetrievalData) -> list[int]:
    """What stands behind the last question, found by reading the row from the left; -1 where it is no part of the answer."""
    v, ask = vocabulary_of(tasks), row.index(ASK)
    match TASKS[row[0]]:
        case "passkey":
            start = row.index(NEEDLE)
            return row[start + 1 : start + 1 + tasks.symbols]
        case "multi_key" | "key_value":
            return [-1, *dict(_pairs(row, ask, v, tasks.symbols))[row[ask + 1]]]
        case "multi_query":
            known = dict(_pairs(row, ask, v, 1))
            return [token for key in row[ask + 1 :: 2] for token in (-1, *known[key])]
        case "multi_value":
            return [-1, *(value for key, (value,) in _pairs(row, ask, v, 1) if key == row[ask + 1])]
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
    assert tokens.shape[1] == length + 1
    assert weights.shape == evidence.shape == tokens[:, 1:].shape
    assert tokens.min() >= 0
    assert tokens.max() < vocabulary_of(tasks).size
    assert set(np.unique(weights)) <= {0.0, 1.0}
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


@pytest.mark.parametrize("task", TASKS)
def test_answers_are_what_a_reader_finds_and_too_short_a_length_is_named(task: Task) -> None:
    for tasks, more in ((DATA.model_copy(update={"symbols": 2, "hops": 3}), 0), (OF_KEYS, 23)):
        smallest = SMALLEST[task](tasks)
        _check(task, _drawn(task, tasks, 20, smallest + more), tasks, smallest + more)
        for length in (1, smallest - 1):
            message = f"{task} does not fit into a length of {length}: the smallest is {smallest}"
            with pytest.raises(UserError, match=re.escape(message)):
                _drawn(task, tasks, 2, length)


@pytest.mark.parametrize(("task", "keys"), [("key_value", 3), ("multi_key", 3), ("multi_query", 7), ("variable_tracking", 5)])
def test_too_few_ids_are_named(task: Task, keys: int) -> None:
    with pytest.raises(UserError, match=rf"{task} needs \d+ different keys, and there are {keys}: set data\.keys = "):
        _drawn(task, RetrievalData(length=64, keys=keys, values=10, fillers=1), 2, 64)


@pytest.mark.parametrize("task", AT_A_DEPTH)
def test_a_grid_of_depths_runs_from_the_first_place_to_the_last(task: Task) -> None:
    tasks, length = DATA, 45
    at = np.linspace(0, 1, 12, dtype=np.float32)
    sample = _drawn(task, tasks, 12, length, at=jnp.asarray(at))
    _check(task, sample, tasks, length)
    tokens, places = np.asarray(sample.tokens), np.asarray(sample.evidence)[:, -1]
    ask = int(np.flatnonzero(tokens[0] == ASK)[0])
    assert places[0] == 2  # the task, the needle's first token, its symbol
    assert places[-1] == ask - 1
    np.testing.assert_allclose(places, 2 + at * (ask - 3), atol=4)
    assert (np.diff(places) > 0).all()


@pytest.mark.parametrize("task", AT_A_DEPTH)
def test_a_depth_that_is_not_given_is_uniform(task: Task) -> None:
    places = np.asarray(_drawn(task, DATA, 10_000, 32, seed=5).evidence)[:, -1]
    if task == "key_value":  # two tokens a pair: every second place, but for the filler that may stand before it
        places = places // 2
    counts = np.bincount(places)
    counts = counts[counts > 0]
    inside = counts[1:-1] if task == "multi_key" else counts  # another pair cannot stand half outside
    assert np.abs(inside - inside.mean()).max() < (0.25 if task == "multi_key" else 0.2) * inside.mean()


@pytest.mark.parametrize("task", OF_A_SIZE)
def test_sizes_are_those_asked_for(task: Task) -> None:
    tasks, length = DATA, 40
    largest = largest_size(task, length)
    assert largest is not None
    sample = _drawn(task, tasks, 5, length, smallest=3, at=jnp.linspace(0, 1, 5))
    targets = np.asarray(sample.weights).sum(axis=1) - (1 if task == "copy" else 2)
    np.testing.assert_array_equal(targets, 3 + np.round(np.linspace(0, 1, 5) * (largest - 3)))
    drawn = np.asarray(_drawn(task, tasks, 3000, length).weights).sum(axis=1) - (1 if task == "copy" else 2)
    assert (drawn.min(), drawn.max()) == (1, largest)
    counts = np.bincount(drawn.astype(int))[1:]
    assert np.abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())
    with pytest.raises(UserError, match="the smallest is"):
        _drawn(task, tasks, 2, length, smallest=largest + 1)


@given(a=st.integers(0, 10**9 - 1), b=st.integers(0, 10**9 - 1))
@example(a=10**9 - 1, b=1)
@settings(max_examples=60)
def test_sums_are_those_of_python(a: int, b: int) -> None:
    lowest_first = (jnp.asarray([[int(d) for d in reversed(f"{number:09d}")]], jnp.int32) for number in (a, b))
    assert np.asarray(compiled_added(*lowest_first))[0].tolist() == [int(d) for d in reversed(f"{a + b:010d}")]


def test_a_mixture_has_its_shares_and_whole_rows() -> None:
    names: tuple[Task, ...] = ("passkey", "copy", "addition")
    shares, rows, tasks = np.array([1.0, 2.0, 1.0]), 1000, DATA
    draw = jax.jit(lambda key: mixture(key, names, shares.tolist(), Batch(tasks, rows, 40)))
    sample = jax.device_get(draw(jax.random.key(0)))
    for share, task in zip(shares / shares.sum(), names, strict=True):
        of_task = np.flatnonzero(sample.tokens[:, 0] == TASKS.index(task))
        assert abs(len(of_task) - rows * share) < 5 * np.sqrt(rows * share)
        _check(task, jax.tree.map(lambda leaf, few=of_task[:20]: leaf[few], sample), tasks, 40)
