"""Statistics of long texts: against whole matrices in float64, and those of short ones."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from model.attention import AttentionStatistics, attention
from model.mesh import make_mesh
from model.positions.alibi import alibi_slopes
from tests.model.naive import Naive, naive_attention, plain, random_heads
from tests.model.tiles import cut_into_tiles

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")
NAMES = ("first", "extra", "entropy", "received")
SLOPES = jnp.asarray(alibi_slopes(4), jnp.float32)


def statistics(q: jax.Array, k: jax.Array, v: jax.Array, **values: Any) -> AttentionStatistics:
    """Traced anew at every call, with the tiles that are set."""
    return jax.jit(lambda *qkv, **rest: attention(*qkv, **rest)[1])(q, k, v, **values)


def expected(naive: Naive, padding: np.ndarray | None) -> dict[str, np.ndarray]:
    p, extra = naive.probabilities, naive.extra
    if padding is not None:
        real = padding[:, None, :]
        p, extra = np.where(real[..., None], p, 0), np.where(real, extra, 0)
    logs = [np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0) for x in (p, extra)]
    return {"first": p[..., 0], "extra": extra, "entropy": -logs[0].sum(-1) - logs[1], "received": p.sum(axis=2)}


# batch, tokens, query heads, key heads, and what differs from plain attention
CASES = {
    "plain": (1, 37, 2, 2, {}),
    "grouped": (2, 50, 4, 2, {}),
    "alibi": (1, 41, 4, 1, {"slopes": SLOPES}),
    "window": (1, 45, 2, 1, {"window": jnp.int32(7)}),
    "kept": (1, 45, 2, 1, {"window": jnp.int32(7), "kept": jnp.int32(6)}),
    "extra": (2, 33, 2, 2, {"extra_logit": jnp.asarray([0.0, 1.5])}),
    "one token": (1, 1, 2, 1, {"extra_logit": jnp.asarray([0.0, -jnp.inf])}),
    "everything": (
        2,
        61,
        4,
        2,
        {"slopes": SLOPES, "window": jnp.int32(9), "kept": jnp.int32(2), "extra_logit": jnp.arange(4.0)},
    ),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_they_are_those_of_the_whole_matrix(case: str, padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_into_tiles(monkeypatch, 5)
    batch, tokens, query_heads, groups, changes = CASES[case]
    q, k, v = random_heads(7, batch, tokens, query_heads, groups, 8)
    values = plain(query_heads, **changes)
    padding = np.random.default_rng(1).random((batch, tokens)) < 0.7 if padded else None
    exact = expected(naive_attention(q, k, v, **values, padding=padding), padding)
    found = statistics(q, k, v, **values, padding=None if padding is None else jnp.asarray(padding))
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name), exact[name], atol=5e-6, rtol=2e-6, err_msg=name)


def test_the_size_of_a_block_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = random_heads(2, 1, 300, 2, 1, 8)
    values = plain(2)
    whole = statistics(q, k, v, **values)
    for size, scores in ((300, 2**20), (128, 2**20), (7, 2**20), (16, 300), (16, 1)):
        cut_into_tiles(monkeypatch, size)
        monkeypatch.setattr("model.columns.SCORES", scores)
        found = statistics(q, k, v, **values)
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5), found, whole)


def test_large_scores_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_into_tiles(monkeypatch, 6)
    q, k, v = random_heads(3, 1, 20, 2, 2, 8)
    found = statistics(100 * q, 100 * k, v, **plain(2))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    np.testing.assert_allclose(np.sum(found.received, axis=-1), 20, rtol=1e-5)


def test_what_keys_receive_of_32k_tokens_takes_less_than_20_mib_a_head() -> None:
    """What XLA plans for it alone; the scores would take 4 GiB."""
    x = jax.ShapeDtypeStruct((1, 32768, 1, 16), jnp.float32)
    lowered = jax.jit(lambda q, k, v: attention(q, k, v, **plain(1))[1].received).lower(x, x, x)
    analysis = lowered.compile().memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes < 20 * 2**20


def test_sharded_equals_unsharded(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_into_tiles(monkeypatch, 16)
    qkv = random_heads(5, 2, 40, 4, 2, 8)
    values = plain(4)
    whole = jax.tree.map(np.asarray, statistics(*qkv, **values))
    four = make_mesh(data=2, model=2)
    with jax.set_mesh(four):
        spread = NamedSharding(four, P("data", None, "model", None))
        own = {name: np.asarray(value) for name, value in values.items()}
        found = statistics(*(jax.device_put(np.asarray(x), spread) for x in qkv), **own)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), found, whole)
