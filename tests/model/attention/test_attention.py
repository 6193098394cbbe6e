"""Attention and its statistics on every path, against whole matrices in float64."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy.special import entr

from leadline.model.attention.attention import attend as attend_rows
from leadline.model.attention.attention import attend_all, attention, form
from leadline.model.attention.mask import NO_WINDOW, Mask, Tiling
from leadline.model.attention.normalizers import softpick
from leadline.model.attention.scores import Scores, capped
from leadline.model.cache.full import full_cache
from leadline.model.cache.ring import ring_cache
from leadline.model.positions.alibi import alibi_slopes
from tests.model.naive import arguments, naive_attention, numbers, random_heads, tiling

pytestmark = pytest.mark.usefixtures("mesh")
attend = jax.jit(attention, static_argnames="tiling")

TOKENS = 45
SLOPES = jnp.asarray(alibi_slopes(4), jnp.float32)
# The paths of attention; all cases below share one program of each.
PATHS = {
    "one block": Tiling(),
    "chunks": tiling(None),
    "tiles": tiling(5),
    "tiles, statistics by rows": tiling(16)._replace(statistics_scores=1),
    "kernel": tiling((8, 16)),
}
SIDES = np.stack([np.arange(TOKENS) >= 3, np.arange(TOKENS) < TOKENS - 20])
CASES = {
    "plain": {},
    "ALiBi": {"slopes": SLOPES},
    "window of one": {"window": 1},
    "window": {"window": 7},
    "initial tokens": {"window": 7, "initial_tokens": 6},
    "tokens of a chunk": {"chunk": 7},
    "chunks, a narrower window and initial tokens": {"chunk": 13, "window": 9, "initial_tokens": 3},
    "more initial tokens than a window": {"window": 3, "initial_tokens": 30},
    "sink logits": {"sink_logit": jnp.asarray([-jnp.inf, 0.0, 1.5, -2.0])},
    "padding": {"padding": SIDES},
    "all": {"slopes": SLOPES, "window": 9, "initial_tokens": 2, "sink_logit": jnp.arange(4.0), "padding": SIDES},
}


def fields(**changes: Any) -> dict[str, Any]:
    """The same structure for every case."""
    none = {"sink_logit": jnp.full(4, -jnp.inf), "slopes": jnp.zeros(4), "padding": np.ones((2, TOKENS), bool)}
    given = {"window": NO_WINDOW, "initial_tokens": 0, "chunk": NO_WINDOW, **none} | changes
    return arguments(**given | {name: jnp.int32(given[name]) for name in ("window", "initial_tokens", "chunk")})


def assert_equal_to_naive(qkv: Any, values: dict[str, Any], tiling: Tiling = Tiling()) -> None:
    """Output and statistics; what padded queries give is no statistic."""
    out, statistics = attend(*qkv, **values, tiling=tiling)
    output, p, sink = naive_attention(*qkv, **values)
    padding = values["mask"].padding
    real = np.ones((1, 1, 1)) if padding is None else np.asarray(padding, float)[:, None, :]
    expected = {
        "first": p[..., 0] * real,
        "sink": sink * real,
        "entropy": (entr(p).sum(axis=-1) + entr(sink)) * real,
        "received": (p * real[..., None]).sum(axis=2),
    }
    np.testing.assert_allclose(out, output, atol=1e-5)
    for name, statistic in expected.items():
        np.testing.assert_allclose(getattr(statistics, name), statistic, atol=1e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("path", PATHS)
def test_output_and_statistics_are_those_of_whole_matrices(path: str, case: str) -> None:
    assert_equal_to_naive(random_heads(7, 2, TOKENS, 4, 2, 8), fields(**CASES[case]), PATHS[path])


@pytest.mark.parametrize(("groups", "tokens"), [(4, 1), (1, 300)])
def test_texts_shorter_and_longer_than_a_block(groups: int, tokens: int) -> None:
    qkv = random_heads(tokens, 2, tokens, 4, groups, 8)
    assert_equal_to_naive(qkv, arguments(sink_logit=jnp.asarray([-jnp.inf, 0.0, 1.5, -2.0])))


def test_a_long_text_is_cut_into_tiles_of_which_the_last_is_not_full() -> None:
    tokens = 1200
    assert tokens > Tiling().unrolled
    padding = jnp.arange(tokens)[None] < tokens - 70
    values = arguments(
        slopes=SLOPES[:2], sink_logit=jnp.asarray([0.5, -jnp.inf]), window=129, initial_tokens=4, padding=padding
    )
    assert_equal_to_naive(random_heads(21, 1, tokens, 2, 1, 4), values)


@pytest.mark.parametrize("path", PATHS)
def test_large_scores_do_not_overflow(path: str) -> None:
    """Scores of hundreds, whose exponentials float64 still holds, and of ten thousands."""
    q, k, v = random_heads(3, 2, TOKENS, 4, 2, 8)
    out, _ = attend(10 * q, 10 * k, v, **fields(), tiling=PATHS[path])
    np.testing.assert_allclose(out, naive_attention(10 * q, 10 * k, v, **fields()).output, atol=1e-3)
    out, statistics = attend(100 * q, 100 * k, v, **fields(), tiling=PATHS[path])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((out, statistics)))
    np.testing.assert_allclose(np.sum(statistics.received, axis=-1), TOKENS, rtol=1e-5)


def test_bfloat16_stays_near_float32() -> None:
    q, k, v = random_heads(12, 1, 140, 4, 2, 16)
    exact, _ = attend(q, k, v)
    out, statistics = attend(*(x.astype(jnp.bfloat16) for x in (q, k, v)))
    assert out.dtype == jnp.bfloat16
    assert statistics.first.dtype == statistics.sink.dtype == statistics.received.dtype == jnp.float32
    np.testing.assert_allclose(out.astype(jnp.float32), exact, atol=3e-2)


def test_32k_tokens_and_all_statistics_take_less_than_25_mib_a_head() -> None:
    """What XLA plans for them, outputs included; the scores would take 4 GiB a head."""
    shapes = [jax.ShapeDtypeStruct((1, 32768, 4, 32), jnp.float32)] * 3
    plan = jax.jit(lambda q, k, v: attention(q, k, v)).lower(*shapes).compile().memory_analysis()
    assert plan is not None
    assert plan.temp_size_in_bytes + plan.output_size_in_bytes < 4 * 25 * 2**20


def test_rows_of_a_text_are_those_of_the_whole_text() -> None:
    (q, k, v), first_query = random_heads(14, 2, 12, 4, 2, 8), 5
    given = {"window": 5, "initial_tokens": 2, "slopes": SLOPES, "sink_logit": 0.5}
    rows, _ = jax.jit(attend_rows)(q[:, first_query:], k, v, **arguments(**given, first_query=first_query))
    np.testing.assert_allclose(rows, naive_attention(q, k, v, **arguments(**given)).output[:, first_query:], atol=1e-5)


CACHES = {
    "all": functools.partial(full_cache, room=9),
    "a ring and initial tokens": functools.partial(ring_cache, initial_tokens=2, window=5, reindexed=False),
    "a ring": functools.partial(ring_cache, initial_tokens=0, window=5),
}


@pytest.mark.parametrize("kind", CACHES)
def test_rows_over_the_parts_of_a_cache_are_those_of_the_whole_text(kind: str) -> None:
    """Output and statistics of the last 5 of 12 tokens; what a key receives is added up over the slots of its position."""
    (q, k, v), read, initial_tokens = random_heads(14, 2, 12, 4, 2, 8), 7, 0 if kind == "a ring" else 2
    logits = jnp.asarray([-jnp.inf, 0.0, 1.5, -2.0])
    given = arguments(window=5, initial_tokens=initial_tokens, slopes=SLOPES, sink_logit=logits)
    cache = jax.tree.map(lambda leaf: leaf[0], CACHES[kind](1, 2, 2, 8)).update(k[:, :read], v[:, :read], q[:, :read])
    parts = cache.parts((q[:, read:],) * 2, k[:, read:], v[:, read:], given["mask"])
    out, statistics = jax.jit(attend_all)(parts, jnp.arange(read, 12), given["scores"])
    output, p, sink = naive_attention(q, k, v, **given)
    output, p, sink = output[:, read:], p[:, :, read:], sink[:, :, read:]
    slots = np.concatenate([part.positions for part in parts])[:, None] == np.arange(12)
    np.testing.assert_allclose(out, output, atol=1e-5)
    np.testing.assert_allclose(statistics.first, p[..., 0], atol=1e-5)
    np.testing.assert_allclose(statistics.sink, sink, atol=1e-5)
    np.testing.assert_allclose(statistics.entropy, entr(p).sum(axis=-1) + entr(sink), atol=1e-5)
    np.testing.assert_allclose(np.asarray(statistics.received) @ slots, p.sum(axis=2), atol=1e-5)


FORMS = {
    "chunks": {"queries": 1024, "keys": 1024, "device": "cpu"},
    "tiles": {"queries": 1025, "keys": 1025, "device": "cpu"},
    "tiles of a part of a text": {"queries": 8, "keys": 64, "device": "cpu"},
    "kernel": {"queries": 8, "keys": 64, "device": "gpu"},
    "chunks, for too many channels": {"queries": 1024, "keys": 1024, "device": "gpu", "channels": 320},
    "differentiated, of capped scores": {"scores": Scores(cap=jnp.float32(3))},
    "differentiated, of a biased key": {"scores": Scores(key_bias=jnp.zeros((1, 4)))},
    "differentiated, of no softmax": {"scores": Scores(normalizer=Partial(softpick))},
}


@pytest.mark.parametrize("expected", FORMS)
def test_shapes_device_and_scores_decide_the_form(expected: str) -> None:
    given: dict[str, Any] = {"queries": 8, "keys": 8, "device": "gpu", "channels": 64, "itemsize": 2} | FORMS[expected]
    assert expected.startswith(form(**given))


def test_an_infinite_cap_is_none() -> None:
    scores = jnp.asarray([-5.0, 0.0, 2.0])
    np.testing.assert_array_equal(capped(scores, jnp.inf), scores)
    np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(capped(x, jnp.float32(jnp.inf))))(scores), np.ones(3))
    np.testing.assert_allclose(capped(scores, 2.0), 2 * np.tanh(np.asarray(scores) / 2), rtol=1e-6)


@pytest.mark.slow
def test_padded_queries_count_in_no_statistic_of_part_of_a_text() -> None:
    q, k, v = numbers(0, 2, TOKENS, 4, 8), numbers(1, 2, TOKENS, 2, 8), numbers(2, 2, TOKENS, 2, 8)
    mask = Mask(padding=jnp.arange(TOKENS)[None] >= jnp.asarray([[0], [3]]))
    _, whole = attention(q, k, v, mask)
    parts = [attend_rows(q[:, i : i + 15], k, v, mask._replace(first_query=i))[1].received for i in range(0, TOKENS, 15)]
    np.testing.assert_allclose(sum(parts), whole.received, atol=1e-5, equal_nan=False)
