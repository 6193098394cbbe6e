"""Streams against StreamingLLM as its authors wrote it down: one token at a time, a list of entries, positions 0 … n - 1.

`StreamingLLM` is numpy in float64 and shares with the model the weights alone. It evicts as mit-han-lab/streaming-llm does
(kv_cache.py: the first and the last entries stay), and numbers what is left anew as its pos_shift does: every key is turned to
its place in the cache when it is read, the query stands at the last one.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.cache.full import full_cache
from leadline.model.cache.ring import RingCache, ring_cache
from leadline.model.decoder import Decoder, DecoderConfig, apply_decoder
from leadline.model.extend import extend
from leadline.model.positions.tables import PositionTables
from tests.model.weights import CONFIG, VARIANTS, alibi, nope, rope, weights

pytestmark = pytest.mark.usefixtures("mesh", "quick_to_compile")

WINDOW, TOKENS, WIDEST, ROOM = 5, 30, 6, 4
CHUNKS = [10, 10, 10]
STEP = jax.jit(extend, static_argnames="cfg")
ONE_PASS = jax.jit(apply_decoder, static_argnames="cfg")
TABLES = {"rope": rope(), "alibi": alibi(), "nope": nope()}
TEXT = np.random.default_rng(3).integers(0, 29, TOKENS)


class StreamingLLM:
    """Layer by layer a list of (place in the text, key, value); a new token evicts before the next one comes."""

    def __init__(self, p: Decoder, initial: int, window: int, encoding: str, reindexed: bool) -> None:
        self.p: Any = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), p)
        self.initial, self.window, self.encoding, self.reindexed = initial, window, encoding, reindexed
        self.caches: list[list[tuple[int, np.ndarray, np.ndarray]]] = [[] for _ in range(CONFIG.layers)]

    def read(self, token: int, place: int) -> np.ndarray:
        """The logits after one more token."""
        x = self.p.embedding[token]
        for layer, cache in enumerate(self.caches):
            b = jax.tree.map(lambda leaf, layer=layer: leaf[layer], self.p.blocks)
            h = _norm(x, b.attention_norm.scale)
            q, k, v = (np.einsum("d,dnh->nh", h, w) for w in (b.query, b.key, b.value))
            cache.append((place, k, v))
            if len(cache) > self.initial + self.window:
                del cache[self.initial]
            x = x + np.einsum("nh,nhd->d", self.attend(q, cache, b.sink_logit), b.output)
            h = _norm(x, b.feedforward_norm.scale)
            gate = h @ b.feedforward.gate
            x = x + (gate / (1 + np.exp(-gate)) * (h @ b.feedforward.up)) @ b.feedforward.down
        return _norm(x, self.p.final_norm.scale) @ self.p.unembedding.T

    def attend(self, q: np.ndarray, cache: list[tuple[int, np.ndarray, np.ndarray]], extra: np.ndarray) -> np.ndarray:
        places = list(range(len(cache))) if self.reindexed else [place for place, _, _ in cache]
        out = np.zeros_like(q)
        for n in range(len(q)):
            scores = []
            for place, (_, k, _) in zip(places, cache, strict=True):
                query, key = q[n], k[n // 2]
                if self.encoding == "rope":
                    query, key = _turn(query, places[-1]), _turn(key, place)
                slope = 2.0 ** (-8 * (n + 1) / len(q)) if self.encoding == "alibi" else 0.0
                scores.append(query @ key / np.sqrt(8) - slope * (places[-1] - place))
            weights = np.exp(scores)
            out[n] = sum(w * v[n // 2] for w, (_, _, v) in zip(weights, cache, strict=True)) / (
                weights.sum() + np.exp(extra[n])
            )
        return out


def _norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x) + 1e-6) * scale


def _turn(x: np.ndarray, place: int) -> np.ndarray:
    """RoPE of one head's channels, pair (i, i + H/2), as complex numbers."""
    z = (x[:4] + 1j * x[4:]) * np.exp(1j * place * 100.0 ** (-np.arange(4) / 4))
    return np.concatenate([z.real, z.imag])


def empty(
    cfg: DecoderConfig, initial: Any, window: Any, reindexed: Any = True, widest: int = WIDEST, first: int = ROOM
) -> RingCache:
    b = cfg.block
    policy = {"initial_tokens": initial, "window": window, "reindexed": reindexed}
    return ring_cache(cfg.layers, 1, b.kv_heads, b.head_dim, **policy, room=(first, widest), dtype=cfg.compute)


def read(p: Decoder, tables: PositionTables, cache: RingCache, chunks: list[int], cfg: DecoderConfig = CONFIG) -> np.ndarray:
    """The logits [T, V] of the text in chunks of these sizes."""
    logits = []
    for tokens in np.split(TEXT, np.cumsum(chunks)[:-1]):
        scores, cache = STEP(p, cache, jnp.asarray(tokens[None]), tables, cfg)
        logits.append(np.asarray(scores[0], np.float64))
    return np.concatenate(logits)


@pytest.mark.parametrize(("initial", "window"), [(ROOM + 1, 2), (1, WIDEST + 2), (jnp.int32(1), jnp.int32(WIDEST + 2))])
def test_a_policy_that_its_room_is_too_small_for_is_refused(initial: Any, window: Any) -> None:
    with pytest.raises(ValueError, match="do not fit into room for"):
        empty(CONFIG, initial, window)


@pytest.mark.parametrize(
    ("encoding", "initial", "reindexed", "chunks"),
    [
        *(("rope", initial, inside, CHUNKS) for initial in (0, 1, 4) for inside in (True, False)),
        ("alibi", 4, True, CHUNKS),
        ("nope", 4, True, CHUNKS),
        ("rope", 2, True, [TOKENS]),
        ("rope", 2, True, [1, 10, 10, 1, 1, 1, 1, 5]),
    ],
)
def test_many_tokens_at_once_are_one_at_a_time(encoding: str, initial: int, reindexed: bool, chunks: list[int]) -> None:
    p = weights(CONFIG)
    naive = StreamingLLM(p, initial, WINDOW, encoding, reindexed)
    expected = np.stack([naive.read(token, place) for place, token in enumerate(TEXT)])
    logits = read(p, TABLES[encoding], empty(CONFIG, initial, WINDOW, reindexed), chunks)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    whole, _ = ONE_PASS(p, jnp.asarray(TEXT[None]), TABLES[encoding], CONFIG)
    assert np.abs(logits - np.asarray(whole[0])).max() > 1e-2  # something was forgotten


@pytest.mark.parametrize("variant", ["KV bias", "norms", "relu"])
def test_nothing_forgotten_is_one_pass(variant: str) -> None:
    cfg = replace(CONFIG, block=VARIANTS[variant])
    p = weights(cfg, sink_logit=0.5)
    whole, _ = ONE_PASS(p, jnp.asarray(TEXT[None]), TABLES["rope"], cfg)
    for initial in (0, 3):
        logits = read(p, TABLES["rope"], empty(cfg, initial, TOKENS, widest=TOKENS), CHUNKS, cfg)
        np.testing.assert_allclose(logits, np.asarray(whole[0]), atol=2e-5, equal_nan=False)


def test_initial_tokens_of_the_model_are_those_of_a_cache_with_positions_of_the_text() -> None:
    """Which of the two knows the window and the initial tokens does not matter."""
    p, both, windowed = weights(CONFIG), rope(window=WINDOW, initial_tokens=3), rope(window=WINDOW)
    whole, _ = ONE_PASS(p, jnp.asarray(TEXT[None]), both, CONFIG)
    in_text = {"reindexed": False, "widest": TOKENS}
    policies = ((TABLES["rope"], 3, WINDOW), (windowed, 3, TOKENS), (both, 0, TOKENS), (both, 2, TOKENS), (both, 3, WINDOW))
    for tables, initial, window in policies:
        logits = read(p, tables, empty(CONFIG, initial, window, **in_text), CHUNKS)
        np.testing.assert_allclose(logits, np.asarray(whole[0]), atol=1e-5)
    forgetful = read(p, both, empty(CONFIG, 2, WINDOW, **in_text), CHUNKS)
    assert np.abs(forgetful - np.asarray(whole[0])).max() > 1e-3  # the third of the initial tokens is gone


@pytest.mark.parametrize("variant", ["KV bias", "norms"])
def test_room_for_initial_tokens_changes_nothing_where_none_are_kept(variant: str) -> None:
    cfg = replace(CONFIG, block=VARIANTS[variant])
    p = weights(cfg)
    with_room, without = (read(p, TABLES["rope"], empty(cfg, 0, WINDOW, first=first), CHUNKS, cfg) for first in (ROOM, 0))
    np.testing.assert_allclose(without, with_room, atol=1e-5)


def test_a_policy_is_a_value() -> None:
    p, traced = weights(CONFIG), []

    @jax.jit
    def compiled(initial: Any, window: Any, reindexed: Any) -> Any:
        traced.append(initial)
        cache = empty(CONFIG, initial, window, reindexed)
        return extend(p, cache, jnp.asarray(TEXT[None]), TABLES["rope"], CONFIG)[0]

    for initial, window, reindexed in ((0, 5, True), (4, 5, True), (4, 5, False), (1, 6, True)):
        logits = compiled(jnp.int32(initial), jnp.int32(window), jnp.asarray(reindexed))
        expected = read(p, TABLES["rope"], empty(CONFIG, initial, window, reindexed), CHUNKS)
        np.testing.assert_allclose(np.asarray(logits[0]), expected, atol=1e-5)
    assert len(traced) == 1


def test_memory_does_not_depend_on_the_length_of_the_stream() -> None:
    """What is carried from chunk to chunk is of one size, and the compiled program needs as much beside its losses."""
    p, chunk = weights(CONFIG), 8

    def last(p: Decoder, text: jax.Array) -> jax.Array:
        def step(cache: RingCache, tokens: jax.Array) -> tuple[RingCache, jax.Array]:
            scores, cache = extend(p, cache, tokens[None], TABLES["rope"], CONFIG)
            return cache, jnp.max(scores)

        return jax.lax.scan(step, empty(CONFIG, 4, WINDOW), text)[1]

    def temporary(chunks: int) -> int:
        analysis = jax.jit(last).lower(p, jnp.zeros((chunks, chunk), jnp.int32)).compile().memory_analysis()
        assert analysis is not None
        return analysis.temp_size_in_bytes

    assert temporary(4096) <= temporary(64) + 1024


def test_a_cache_of_a_whole_text_has_a_type_and_key_channels_of_its_own() -> None:
    cache = jax.tree.map(lambda leaf: leaf[0], full_cache(1, 2, 3, 4, room=2, key_dim=8, dtype="bfloat16"))
    cache = cache.update(jnp.ones((2, 1, 3, 8)), jnp.ones((2, 1, 3, 4)), jnp.ones((2, 1, 6, 4)))
    assert cache.key.shape == (2, 3, 2, 8)
    assert cache.key.dtype == cache.value.dtype == jnp.bfloat16
