"""Sums of columns without values: against attention's own statistics, and whole matrices in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from model.attention import attention
from model.kernels import column_statistics as module
from model.kernels.column_statistics import column_statistics
from model.mesh import make_mesh
from model.positions.alibi import alibi_slopes
from tests.model.naive import NO_WINDOW, Naive, naive_attention, plain, random_heads

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")
NAMES = ("first", "extra", "entropy", "received")


def expected(naive: Naive, padding: np.ndarray | None) -> dict[str, np.ndarray]:
    p, extra = naive.probabilities, naive.extra
    if padding is not None:
        real = padding[:, None, :]
        p, extra = np.where(real[..., None], p, 0), np.where(real, extra, 0)
    logs = [np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0) for x in (p, extra)]
    return {"first": p[..., 0], "extra": extra, "entropy": -logs[0].sum(-1) - logs[1], "received": p.sum(axis=2)}


def lse_of(q, k, extra_logit, slopes, window, padding) -> jax.Array:
    """ln of the sum of each row [B, N, T], in float64."""
    q, k, slopes = (np.asarray(x, np.float64) for x in (q, k, slopes))
    T, N = q.shape[1:3]
    k = np.repeat(k, N // k.shape[2], axis=2)
    distance = np.arange(T)[:, None] - np.arange(T)[None]
    scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(q.shape[-1]) - slopes[:, None, None] * distance
    visible = ((distance >= 0) & (distance < int(window)))[None, None]
    visible = visible if padding is None else visible & padding[:, None, None]
    total = np.where(visible, np.exp(scores), 0).sum(-1) + np.exp(np.asarray(extra_logit, np.float64))[:, None]
    return jnp.asarray(np.log(np.where(total > 0, total, 1)) + np.where(total > 0, 0, -np.inf), jnp.float32)


CASES = {
    "plain": (1, 37, 2, 2, {}),
    "grouped": (2, 50, 4, 2, {}),
    "alibi": (1, 41, 4, 1, {"slopes": jnp.asarray(alibi_slopes(4), jnp.float32)}),
    "window": (1, 45, 2, 1, {"window": jnp.int32(7)}),
    "extra": (2, 33, 2, 2, {"extra_logit": jnp.asarray([0.0, 1.5])}),
    "one token": (1, 1, 2, 1, {"extra_logit": jnp.asarray([0.0, -jnp.inf])}),
    "everything": (
        2,
        61,
        4,
        2,
        {"slopes": jnp.asarray(alibi_slopes(4), jnp.float32), "window": jnp.int32(9), "extra_logit": jnp.arange(4.0)},
    ),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_whole_matrix(case: str, padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 5)  # several blocks, the last of which begins within the one before it
    monkeypatch.setattr(module, "CHUNKS", 3)
    batch, tokens, query_heads, groups, changes = CASES[case]
    q, k, v = random_heads(7, batch, tokens, query_heads, groups, 8)
    values = plain(query_heads, **changes)
    padding = np.random.default_rng(1).random((batch, tokens)) < 0.7 if padded else None
    given = None if padding is None else jnp.asarray(padding)
    exact = expected(naive_attention(q, k, v, **values, padding=padding), padding)
    _, own = jax.jit(attention)(q, k, v, **values, padding=given)
    known = lse_of(q, k, **values, padding=padding)
    for lse in (None, known):
        found = jax.jit(column_statistics)(q, k, **values, padding=given, lse=lse)
        for name in NAMES:
            np.testing.assert_allclose(getattr(found, name), exact[name], atol=5e-6, rtol=2e-6, err_msg=name)
            np.testing.assert_allclose(getattr(found, name), getattr(own, name), atol=5e-6, rtol=2e-6, err_msg=name)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, _ = random_heads(2, 1, 300, 2, 1, 8)
    values = plain(2)
    expected_one = jax.jit(column_statistics)(q, k, **values)
    for scores, rows, chunks in ((300, 128, 8), (2**20, 7, 3), (1, 1, 2)):
        for name, value in (("SCORES", scores), ("ROWS", rows), ("CHUNKS", chunks)):
            monkeypatch.setattr(module, name, value)
        found = jax.jit(lambda q, k: column_statistics(q, k, **values))(q, k)
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5), found, expected_one)


def test_large_scores_do_not_overflow() -> None:
    q, k, _ = random_heads(3, 1, 20, 2, 2, 8)
    found = jax.jit(column_statistics)(100 * q, 100 * k, **plain(2))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    np.testing.assert_allclose(np.sum(found.received, axis=-1), 20, rtol=1e-5)


def test_memory_is_linear_in_the_length() -> None:
    def temporary(tokens: int) -> int:
        x = jax.ShapeDtypeStruct((1, tokens, 1, 16), jnp.float32)
        values = plain(1)
        lowered = jax.jit(lambda q, k: column_statistics(q, k, **values).received).lower(x, x)
        analysis = lowered.compile().memory_analysis()
        assert analysis is not None
        return analysis.temp_size_in_bytes

    longest = temporary(32768)
    assert longest < 20 * 2**20
    assert longest < 6 * temporary(8192)


def test_sharded_equals_unsharded() -> None:
    q, k, _ = random_heads(5, 2, 40, 4, 2, 8)
    values = plain(4, window=jnp.int32(NO_WINDOW))
    expected_one = jax.tree.map(np.asarray, jax.jit(column_statistics)(q, k, **values))
    four = make_mesh(data=2, model=2)
    with jax.set_mesh(four):
        spread = NamedSharding(four, P("data", None, "model", None))
        own = {name: np.asarray(value) for name, value in values.items()}
        found = jax.jit(column_statistics)(*(jax.device_put(np.asarray(x), spread) for x in (q, k)), **own)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), found, expected_one)
