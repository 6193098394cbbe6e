"""Perplexities against a loop over single targets, closed forms, and each other."""

import itertools
import math
from collections import defaultdict
from statistics import mean

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.experiments.data.text.held_out import HeldOut
from leadline.experiments.measure.perplexity import (
    document_perplexity,
    evaluated,
    last_perplexity,
    loss_by_position,
    mean_loss,
    perplexities,
    position_edges,
    token_perplexity,
    window_perplexity,
)
from leadline.experiments.records.measurement import reading

LOSSES = np.random.default_rng(0).gamma(2.0, size=(3, 10)).astype(np.float32)
ALL = np.ones(LOSSES.shape, bool)


def test_mean_loss_weighs_tokens_equally() -> None:
    assert mean_loss(jnp.asarray(LOSSES)) == pytest.approx(LOSSES.mean(), rel=1e-6)
    chosen = np.zeros(LOSSES.shape, bool)
    chosen[0, :7] = True
    chosen[1, 2] = True
    assert mean_loss(jnp.asarray(LOSSES), jnp.asarray(chosen)) == pytest.approx(LOSSES[chosen].mean(), rel=1e-6)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), length=st.integers(2, 12), stride=st.integers(1, 12), windows=st.integers(1, 6))
def test_every_protocol_equals_a_walk_over_the_targets(seed: int, length: int, stride: int, windows: int) -> None:
    rng = np.random.default_rng(seed)
    losses, documents = rng.gamma(2.0, size=(windows, length)), rng.integers(0, 4, (windows, length))
    counted = np.tile(np.arange(length) >= length - stride, (windows, 1))
    walked: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in ("tokens", "windows", "documents", "last")}
    for window, place in itertools.product(range(windows), range(length)):
        if counted[window, place]:
            groups = {"tokens": 0, "windows": window, "documents": int(documents[window, place])}
            for name, group in groups.items() | ({"last": 0} if place >= length - 2 else {}).items():
                walked[name][group].append(losses[window, place])
    expected = {name: math.exp(mean(mean(group) for group in groups.values())) for name, groups in walked.items()}
    text = HeldOut(np.zeros((windows, length + 1), np.int32), counted, documents)
    point = perplexities(losses, text, 2, length=length, extension="pi")
    dims = {"length": length, "extension": "pi"}
    assert {key: float(value) for key, value in point.items()} == {
        reading("perplexity", **dims): pytest.approx(expected["tokens"], rel=1e-12),
        reading("perplexity", protocol="windows", **dims): pytest.approx(expected["windows"], rel=1e-12),
        reading("perplexity", protocol="documents", **dims): pytest.approx(expected["documents"], rel=1e-12),
        reading("perplexity", protocol="last", last=2, **dims): pytest.approx(expected["last"], rel=1e-12),
    }
    assert evaluated(text, length=length)[reading("documents", length=length)] == len(walked["documents"])


def test_the_three_agree_where_they_must_and_differ_where_they_may() -> None:
    one = np.zeros(LOSSES.shape, np.int64)
    whole = token_perplexity(LOSSES, ALL)
    assert whole == pytest.approx(math.exp(LOSSES.astype(np.float64).mean()), rel=1e-12)
    assert window_perplexity(LOSSES, ALL) == pytest.approx(whole, rel=1e-12)  # windows of one size
    assert document_perplexity(LOSSES, ALL, one) == pytest.approx(whole, rel=1e-12)  # one document
    # Two windows of losses 0 and 1, the second counted by half; a document of 3 tokens at loss 1 and one of 3 at 0.
    losses = np.array([[0.0] * 4, [1.0] * 4])
    counted = np.array([[True] * 4, [False, False, True, True]])
    assert token_perplexity(losses, counted) == pytest.approx(math.exp(2 / 6))
    assert window_perplexity(losses, counted) == pytest.approx(math.exp(1 / 2))
    documents = np.array([[0, 0, 0, 1], [0, 0, 1, 1]])
    assert document_perplexity(losses, counted, documents) == pytest.approx(math.exp((0 + 2 / 3) / 2))


def test_an_even_guess_has_the_perplexity_of_its_alphabet() -> None:
    losses, documents = np.full((3, 5), math.log(257)), np.arange(15).reshape(3, 5) // 4
    counted = np.ones((3, 5), bool)
    for found in (
        token_perplexity(losses, counted),
        window_perplexity(losses, counted),
        document_perplexity(losses, counted, documents),
        last_perplexity(losses, counted, 2),
    ):
        assert found == pytest.approx(257, rel=1e-12)


def test_the_last_positions_are_those_that_count_among_them() -> None:
    assert last_perplexity(LOSSES, ALL, 4) == pytest.approx(math.exp(LOSSES[:, 6:].astype(np.float64).mean()), rel=1e-12)
    counted = ALL.copy()
    counted[1:, :8] = False
    expected = np.concatenate([LOSSES[0, 6:], LOSSES[1, 8:], LOSSES[2, 8:]]).astype(np.float64).mean()
    assert last_perplexity(LOSSES, counted, 4) == pytest.approx(math.exp(expected), rel=1e-12)
    for last in (0, 11):
        with pytest.raises(ValueError, match=f"the last {last} positions of a window of 10"):
            last_perplexity(LOSSES, ALL, last)


def test_bins_are_half_octaves_that_hold_every_position_once() -> None:
    assert position_edges(16).tolist() == [0, 1, 2, 3, 4, 6, 8, 11, 16]
    assert position_edges(20).tolist() == [0, 1, 2, 3, 4, 6, 8, 11, 16, 20]
    assert position_edges(1).tolist() == [0, 1]
    for length in (2, 3, 7, 128, 1000, 4096):
        edges = position_edges(length)
        assert (edges[0], edges[-1]) == (0, length)
        assert (np.diff(edges) > 0).all()


def test_loss_by_position_is_the_mean_of_its_bin() -> None:
    edges = position_edges(10)
    expected = [LOSSES[:, low:high].astype(np.float64).mean() for low, high in itertools.pairwise(edges)]
    np.testing.assert_allclose(loss_by_position(LOSSES, edges), expected, rtol=1e-12)
    assert np.dot(loss_by_position(LOSSES, edges), np.diff(edges)) / 10 == pytest.approx(
        LOSSES.astype(np.float64).mean(), rel=1e-12
    )


def test_what_broke_down_has_no_finite_perplexity() -> None:
    assert token_perplexity(np.full((1, 2), 1e4), np.ones((1, 2), bool)) == math.inf
    assert math.isnan(token_perplexity(np.array([[np.nan, 1.0]]), np.ones((1, 2), bool)))
