"""Bigram-Backcopy: the process, its stationary law and its oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.data.backcopy import (
    Backcopy,
    bigram_queries,
    conditional_entropy,
    make_task,
    oracle_loss,
    sample,
    trigger_queries,
)
from leadline.experiments.runtime.errors import UserError

V, TRIGGERS = 12, 3
compiled_sample = jax.jit(sample, static_argnames=("batch", "length"))


@pytest.fixture(scope="module")
def task() -> Backcopy:
    return make_task(V, TRIGGERS, 0)


@pytest.fixture(scope="module")
def tokens(task: Backcopy) -> jax.Array:
    return compiled_sample(jax.random.key(1), task, 4000, 50)


def _bigram(task: Backcopy) -> np.ndarray:
    return np.exp(np.asarray(task.log_bigram, np.float64))


def test_the_unigram_is_stationary(task: Backcopy) -> None:
    unigram = np.asarray(task.unigram, np.float64)
    np.testing.assert_allclose(unigram @ _bigram(task), unigram, atol=1e-6)
    np.testing.assert_allclose(unigram.sum(), 1.0, atol=1e-6)
    assert (unigram > 0).all()


def test_rows_are_distributions_and_cumulative(task: Backcopy) -> None:
    np.testing.assert_allclose(_bigram(task).sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.cumsum(_bigram(task), axis=1), task.cumulative_bigram, atol=1e-6)
    np.testing.assert_array_equal(task.cumulative_bigram[:, -1], 1.0)


def test_the_logits_are_standard_normal() -> None:
    log_bigram = np.asarray(make_task(256, 0, 5).log_bigram)
    logits = log_bigram - log_bigram.mean(axis=1, keepdims=True)
    assert abs(logits.std() - 1.0) < 0.01
    assert abs((np.abs(logits) > 1.96).mean() - 0.05) < 0.005


def test_triggers_are_the_most_frequent_tokens(task: Backcopy) -> None:
    trigger, unigram = np.asarray(task.trigger), np.asarray(task.unigram)
    assert trigger.sum() == TRIGGERS
    assert unigram[trigger].min() > unigram[~trigger].max()


def test_tasks_differ_by_seed_alone(task: Backcopy) -> None:
    np.testing.assert_array_equal(make_task(V, TRIGGERS, 0).log_bigram, task.log_bigram)
    assert not np.array_equal(make_task(V, TRIGGERS, 1).log_bigram, task.log_bigram)


def test_the_first_token_follows_the_unigram_without_triggers(task: Backcopy, tokens: jax.Array) -> None:
    np.testing.assert_array_equal(tokens[:, 0], V)
    assert int(tokens[:, 1:].max()) < V
    first = np.asarray(tokens[:, 1])
    expected = np.where(task.trigger, 0.0, task.unigram)
    counts = np.bincount(first, minlength=V)
    assert (counts[np.asarray(task.trigger)] == 0).all()
    expected = len(first) * expected / expected.sum()
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()


def test_a_trigger_repeats_the_token_before_it(task: Backcopy, tokens: jax.Array) -> None:
    ids, trigger = np.asarray(tokens), np.asarray(task.trigger)
    row, t = np.nonzero(trigger[ids[:, 1:-1]])
    t = t + 1
    assert len(t) > 10_000
    np.testing.assert_array_equal(ids[row, t + 1], ids[row, t - 1])
    assert not trigger[ids[row, t + 1]].any()


def test_other_tokens_follow_their_row(task: Backcopy, tokens: jax.Array) -> None:
    ids, trigger = np.asarray(tokens), np.asarray(task.trigger)
    query, following = ids[:, 1:-1].ravel(), ids[:, 2:].ravel()
    counts = np.zeros((V, V))
    np.add.at(counts, (query, following), 1)
    expected = _bigram(task) * counts.sum(axis=1, keepdims=True)
    drawn = ~trigger
    assert counts[drawn].sum() > 100_000
    deviation = np.abs(counts - expected)[drawn] / np.sqrt(expected[drawn])
    assert deviation.max() < 5


def test_queries_are_told_apart(task: Backcopy, tokens: jax.Array) -> None:
    ids, trigger = np.asarray(tokens), np.append(np.asarray(task.trigger), False)
    copies, bigrams = trigger_queries(tokens, task), bigram_queries(tokens, task)
    np.testing.assert_array_equal(copies, trigger[ids])
    np.testing.assert_array_equal(bigrams, ~trigger[ids] & (ids != V))
    np.testing.assert_array_equal(copies | bigrams, ids != V)


def test_the_entropy_is_that_of_each_law(task: Backcopy) -> None:
    tokens = jnp.asarray([[V, *range(V)]], jnp.int32)
    entropy = np.asarray(conditional_entropy(tokens, task))[0]
    bigram, trigger = _bigram(task), np.asarray(task.trigger)
    first = np.asarray(task.unigram, np.float64)[~trigger]
    first /= first.sum()
    np.testing.assert_allclose(entropy[0], -(first * np.log(first)).sum(), atol=1e-5)
    rows = -(bigram * np.log(bigram)).sum(axis=1)
    np.testing.assert_allclose(entropy[1:], np.where(trigger, 0.0, rows), atol=1e-5)


def test_the_oracle_loss_is_that_of_a_loop_over_the_rule(task: Backcopy, tokens: jax.Array) -> None:
    few = tokens[:20]
    ids, trigger, bigram = np.asarray(few), np.asarray(task.trigger), _bigram(task)
    first = np.where(trigger, 0.0, task.unigram)
    expected = np.zeros((20, ids.shape[1] - 1))
    for b, row in enumerate(ids):
        expected[b, 0] = -np.log(first[row[1]] / first.sum())
        for t in range(1, len(row) - 1):
            p = float(row[t + 1] == row[t - 1]) if trigger[row[t]] else bigram[row[t], row[t + 1]]
            expected[b, t] = -np.log(p)
    np.testing.assert_allclose(oracle_loss(few, task), expected, atol=1e-5)


def test_the_oracle_loss_is_the_entropy_on_average(task: Backcopy, tokens: jax.Array) -> None:
    bigrams = np.asarray(bigram_queries(tokens, task))[:, :-1]
    loss, entropy = np.asarray(oracle_loss(tokens, task)), np.asarray(conditional_entropy(tokens, task))[:, :-1]
    gap = (loss - entropy)[bigrams]
    assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(gap.size)
    np.testing.assert_array_equal(loss[np.asarray(trigger_queries(tokens, task))[:, :-1]], 0.0)


def test_a_copy_that_is_none_is_impossible(task: Backcopy) -> None:
    a, b = np.flatnonzero(~np.asarray(task.trigger))[:2]
    trigger = np.flatnonzero(task.trigger)[0]
    loss = np.asarray(oracle_loss(jnp.asarray([[V, a, trigger, b, a]], jnp.int32), task))[0]
    assert np.isposinf(loss).tolist() == [False, False, True, False]


def test_keys_and_tasks_can_be_mapped(task: Backcopy) -> None:
    tasks = [task, make_task(V, TRIGGERS, 1)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    keys = jax.random.split(jax.random.key(0))
    mapped = jax.jit(jax.vmap(lambda key, task: sample(key, task, 4, 10)))(keys, stacked)
    shared = jax.jit(jax.vmap(lambda key, task: sample(key, task, 4, 10), in_axes=(0, None)))(keys, task)
    for i in range(2):
        np.testing.assert_array_equal(mapped[i], compiled_sample(keys[i], tasks[i], 4, 10))
        np.testing.assert_array_equal(shared[i], compiled_sample(keys[i], task, 4, 10))


def test_no_trigger_is_a_plain_bigram() -> None:
    task = make_task(5, 0, 0)
    tokens = compiled_sample(jax.random.key(0), task, 3, 8)
    assert not trigger_queries(tokens, task).any()
    assert compiled_sample(jax.random.key(0), task, 3, 2).shape == (3, 2)


@pytest.mark.parametrize("triggers", [-1, 4])
def test_triggers_must_leave_a_token(triggers: int) -> None:
    with pytest.raises(UserError, match="from 0 to 3 are possible"):
        make_task(4, triggers, 0)


def test_a_sequence_needs_a_token_after_bos(task: Backcopy) -> None:
    with pytest.raises(ValueError, match="no token after BOS"):
        sample(jax.random.key(0), task, 1, 1)
