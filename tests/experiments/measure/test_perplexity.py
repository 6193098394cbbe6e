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
    evaluated,
    last_perplexity,
    loss_by_position,
    mean_loss,
    perplexities,
    position_edges,
    token_perplexity,
)
from leadline.experiments.records.measurement import reading

LOSSES = np.random.default_rng(0).gamma(2.0, size=(3, 10)).astype(np.float32)


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


@pytest.mark.parametrize("last", [0, 11])
def test_there_are_as_many_last_positions_as_positions(last: int) -> None:
    with pytest.raises(ValueError, match=f"the last {last} positions of a window of 10"):
        last_perplexity(LOSSES, np.ones(LOSSES.shape, bool), last)


def test_bins_are_half_octaves_that_hold_every_position_once() -> None:
    assert position_edges(16).tolist() == [0, 1, 2, 3, 4, 6, 8, 11, 16]
    assert position_edges(20).tolist() == [0, 1, 2, 3, 4, 6, 8, 11, 16, 20]
    for length in (1, 2, 3, 7, 1000, 4096):
        edges = position_edges(length)
        assert (edges[0], edges[-1]) == (0, length)
        assert (np.diff(edges) > 0).all()


def test_loss_by_position_is_the_mean_of_its_bin() -> None:
    edges = position_edges(10)
    expected = [LOSSES[:, low:high].astype(np.float64).mean() for low, high in itertools.pairwise(edges)]
    np.testing.assert_allclose(loss_by_position(LOSSES, edges), expected, rtol=1e-12)


def test_what_broke_down_has_no_finite_perplexity() -> None:
    assert token_perplexity(np.full((1, 2), 1e4), np.ones((1, 2), bool)) == math.inf
    assert math.isnan(token_perplexity(np.array([[np.nan, 1.0]]), np.ones((1, 2), bool)))
