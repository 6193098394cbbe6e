"""Statistics of long texts, which are cut into tiles: against whole matrices in float64, and those of short texts."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from leadline.model.attention.attention import AttentionStatistics, attention
from leadline.model.mesh import HEADS, make_mesh
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import Naive, arguments, naive_attention, random_heads, tiling

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")
NAMES = ("first", "sink", "entropy", "received")
SLOPES = jnp.asarray(alibi_slopes(4), jnp.float32)


@functools.partial(jax.jit, static_argnames="tiling")
def statistics(q: jax.Array, k: jax.Array, v: jax.Array, **changes: Any) -> AttentionStatistics:
    return attention(q, k, v, **changes)[1]


def expected(naive: Naive, padding: np.ndarray | None) -> dict[str, np.ndarray]:
    p, sink = naive.probabilities, naive.sink
    if padding is not None:
        real = padding[:, None, :]
        p, sink = np.where(real[..., None], p, 0), np.where(real, sink, 0)
    logs = [np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0) for x in (p, sink)]
    return {"first": p[..., 0], "sink": sink, "entropy": -logs[0].sum(-1) - logs[1], "received": p.sum(axis=2)}


# batch, tokens, query heads, key heads, and what differs from plain attention
CASES = {
    "plain": (1, 37, 2, 2, {}),
    "alibi": (1, 41, 4, 1, {"slopes": SLOPES}),
    "window": (1, 45, 2, 1, {"window": 7}),
    "initial tokens": (1, 45, 2, 1, {"window": 7, "initial_tokens": 6}),
    "sink": (2, 33, 2, 2, {"sink_logit": jnp.asarray([0.0, 1.5])}),
    "one token": (1, 1, 2, 1, {"sink_logit": jnp.asarray([0.0, -jnp.inf])}),
    "everything": (2, 61, 4, 2, {"slopes": SLOPES, "window": 9, "initial_tokens": 2, "sink_logit": jnp.arange(4.0)}),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_they_are_those_of_the_whole_matrix(case: str, padded: bool) -> None:
    batch, tokens, query_heads, groups, changes = CASES[case]
    q, k, v = random_heads(7, batch, tokens, query_heads, groups, 8)
    padding = np.random.default_rng(1).random((batch, tokens)) < 0.7 if padded else None
    values = arguments(**changes, padding=None if padding is None else jnp.asarray(padding))
    exact = expected(naive_attention(q, k, v, **values), padding)
    found = statistics(q, k, v, **values, tiling=tiling(5))
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), exact[name], atol=5e-6, rtol=2e-6, err_msg=name)


def test_the_size_of_a_block_does_not_matter() -> None:
    q, k, v = random_heads(2, 1, 300, 2, 1, 8)
    whole = statistics(q, k, v)
    for size, scores in ((300, 2**20), (7, 2**20), (16, 300), (16, 1)):
        found = statistics(q, k, v, tiling=tiling(size)._replace(statistics_scores=scores))
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5), found, whole)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = random_heads(3, 1, 20, 2, 2, 8)
    found = statistics(100 * q, 100 * k, v, tiling=tiling(6))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    np.testing.assert_allclose(np.sum(found.received, axis=-1), 20, rtol=1e-5)


def test_received_attention_of_32k_tokens_takes_less_than_20_mib_a_head() -> None:
    """What XLA plans for it alone; the scores would take 4 GiB."""
    x = jax.ShapeDtypeStruct((1, 32768, 1, 16), jnp.float32)
    analysis = jax.jit(lambda q, k, v: attention(q, k, v)[1].received).lower(x, x, x).compile().memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes < 20 * 2**20


def test_sharded_equals_unsharded() -> None:
    qkv = random_heads(5, 2, 40, 4, 2, 8)
    whole = jax.tree.map(np.asarray, statistics(*qkv, tiling=tiling(16)))
    four = make_mesh(data=2, model=2)
    with jax.set_mesh(four):
        sharding = NamedSharding(four, HEADS)
        found = statistics(*(jax.device_put(np.asarray(x), sharding) for x in qkv), tiling=tiling(16))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), found, whole)
