"""Bigram-Backcopy: the process, its stationary law and its oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.data.backcopy import bigram_queries, make_task, oracle_loss, sample, trigger_queries

V, TRIGGERS = 12, 3
TASK = make_task(V, TRIGGERS, 0)
TRIGGER, UNIGRAM = np.asarray(TASK.trigger), np.asarray(TASK.unigram, np.float64)
BIGRAM = np.exp(np.asarray(TASK.log_bigram, np.float64))
FIRST = np.where(TRIGGER, 0.0, UNIGRAM) / UNIGRAM[~TRIGGER].sum()
compiled_sample = jax.jit(sample, static_argnames=("batch", "length"))


@pytest.fixture(scope="module")
def ids() -> np.ndarray:
    return np.asarray(compiled_sample(jax.random.key(1), TASK, 4000, 50))


def test_the_unigram_is_stationary_and_rows_are_distributions() -> None:
    np.testing.assert_allclose(UNIGRAM @ BIGRAM, UNIGRAM, atol=1e-6)
    np.testing.assert_allclose(UNIGRAM.sum(), 1.0, atol=1e-6)
    assert (UNIGRAM > 0).all()
    np.testing.assert_allclose(BIGRAM.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.cumsum(BIGRAM, axis=1), TASK.cumulative_bigram, atol=1e-6)
    np.testing.assert_array_equal(TASK.cumulative_bigram[:, -1], 1.0)


def test_the_logits_are_standard_normal() -> None:
    log_bigram = np.asarray(make_task(256, 0, 5).log_bigram)
    logits = log_bigram - log_bigram.mean(axis=1, keepdims=True)
    assert abs(logits.std() - 1.0) < 0.01
    assert abs((np.abs(logits) > 1.96).mean() - 0.05) < 0.005


def test_triggers_are_the_most_frequent_tokens() -> None:
    assert TRIGGER.sum() == TRIGGERS
    assert UNIGRAM[TRIGGER].min() > UNIGRAM[~TRIGGER].max()
    assert not make_task(5, 0, 0).trigger.any()


def test_the_first_token_follows_the_unigram_without_triggers(ids: np.ndarray) -> None:
    np.testing.assert_array_equal(ids[:, 0], V)
    assert ids[:, 1:].max() < V
    expected = len(ids) * FIRST
    assert (np.abs(np.bincount(ids[:, 1], minlength=V) - expected) <= 5 * np.sqrt(expected)).all()


def test_a_trigger_repeats_the_token_before_it(ids: np.ndarray) -> None:
    row, t = np.nonzero(TRIGGER[ids[:, 1:-1]])
    assert len(t) > 10_000
    np.testing.assert_array_equal(ids[row, t + 2], ids[row, t])
    assert not TRIGGER[ids[row, t + 2]].any()


def test_other_tokens_follow_their_row(ids: np.ndarray) -> None:
    counts = np.zeros((V, V))
    np.add.at(counts, (ids[:, 1:-1].ravel(), ids[:, 2:].ravel()), 1)
    expected = (BIGRAM * counts.sum(axis=1, keepdims=True))[~TRIGGER]
    assert counts[~TRIGGER].sum() > 100_000
    assert (np.abs(counts[~TRIGGER] - expected) / np.sqrt(expected)).max() < 5


def test_queries_are_told_apart(ids: np.ndarray) -> None:
    trigger, tokens = np.append(TRIGGER, False), jnp.asarray(ids[:20])
    np.testing.assert_array_equal(trigger_queries(tokens, TASK), trigger[ids[:20]])
    np.testing.assert_array_equal(bigram_queries(tokens, TASK), ~trigger[ids[:20]] & (ids[:20] != V))


def test_the_oracle_loss_is_that_of_a_loop_over_the_rule(ids: np.ndarray) -> None:
    """A copy of another token than the one before the trigger is impossible."""
    rows = ids[:20].copy()
    rows[0, 2:5] = [np.flatnonzero(TRIGGER)[0], *np.flatnonzero(~TRIGGER & (np.arange(V) != rows[0, 1]))[:2]]
    expected = np.full((20, ids.shape[1] - 1), np.inf)
    for b, row in enumerate(rows):
        expected[b, 0] = -np.log(FIRST[row[1]])
        for t in range(1, len(row) - 1):
            if not TRIGGER[row[t]]:
                expected[b, t] = -np.log(BIGRAM[row[t], row[t + 1]])
            elif row[t + 1] == row[t - 1]:
                expected[b, t] = 0
    assert np.isposinf(expected[0, 2])
    np.testing.assert_allclose(oracle_loss(jnp.asarray(rows), TASK), expected, atol=1e-5)
