"""Biases inside attention: the right head, row and column, block by block and with one query at a time."""

from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.attention import attend, attention
from model.linear import draw
from model.positions.bias import BiasConfig, Kind, init_bias, score_bias
from model.positions.cope import cope_bias
from model.positions.fire import fire_bias
from model.positions.kerple import kerple_logarithmic, kerple_power
from model.positions.t5 import t5_bias
from tests.model.naive import plain, random_heads
from tests.model.weights import drawn

pytestmark = pytest.mark.usefixtures("mesh")

HEADS, GROUPS, SIZE = 4, 2, 8
KINDS = pytest.mark.parametrize("kind", get_args(Kind))


def made(kind: Kind) -> tuple[BiasConfig, Any]:
    cfg = BiasConfig(kind, buckets=8, furthest=50, hidden=4, positions=16)
    return cfg, drawn(lambda: draw(jax.random.key(1), init_bias(jax.random.key(0), cfg, 16, HEADS, SIZE)), seed=2)


def dense(p: Any, cfg: BiasConfig, q: jax.Array, k: jax.Array) -> np.ndarray:
    """The bias of every head, query and key at once, [B, N, T, T], indexed by distance where it is one."""
    tokens = q.shape[1]
    distance = np.maximum(np.arange(tokens)[:, None] - np.arange(tokens)[None], 0)
    match cfg.kind:
        case "t5":
            return np.asarray(t5_bias(p, tokens, furthest=cfg.furthest))[:, distance][None]
        case "kerple_logarithmic":
            return np.asarray(kerple_logarithmic(p, tokens))[:, distance][None]
        case "kerple_power":
            return np.asarray(kerple_power(p, tokens))[:, distance][None]
        case "fire":
            return np.asarray(fire_bias(p, jnp.arange(tokens), tokens))[None]
        case "cope":
            heads = jnp.swapaxes(q * SIZE**-0.5, 1, 2)
            keys = jnp.repeat(jnp.swapaxes(k, 1, 2), HEADS // GROUPS, axis=1, total_repeat_length=HEADS)
            visible = jnp.tril(jnp.ones((tokens, tokens), bool))
            return np.asarray(cope_bias(p, heads, jnp.einsum("BNTH,BNSH->BNTS", heads, keys), visible))


def expected(p: Any, cfg: BiasConfig, q: jax.Array, k: jax.Array, v: jax.Array) -> np.ndarray:
    """Attention with the whole matrix of scores, float64."""
    tokens, repeat = q.shape[1], HEADS // GROUPS
    keys, values = (np.repeat(np.asarray(x, np.float64), repeat, axis=2) for x in (k, v))
    scores = np.einsum("BTNH,BSNH->BNTS", np.asarray(q, np.float64), keys) * SIZE**-0.5 + dense(p, cfg, q, k)
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    numerators = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("BNTS,BSNH->BTNH", numerators / numerators.sum(axis=-1, keepdims=True), values)


@KINDS
@pytest.mark.parametrize("tokens", [5, 39])
def test_blocks_get_the_bias_of_their_own_rows(kind: Kind, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """39 tokens are two chunks of several blocks, the last of which has surplus rows."""
    monkeypatch.setattr("model.blocks.BLOCK", 8)
    monkeypatch.setattr("model.blocks.CHUNKS", 2)
    cfg, p = made(kind)
    q, k, v = random_heads(1, 1, tokens, HEADS, GROUPS, SIZE)
    found, _ = jax.jit(lambda q, k, v: attention(q, k, v, bias=score_bias(p, cfg, tokens), **plain(HEADS)))(q, k, v)
    np.testing.assert_allclose(found, expected(p, cfg, q, k, v), atol=2e-5)


@KINDS
def test_one_query_gets_the_row_of_its_place(kind: Kind) -> None:
    cfg, p = made(kind)
    q, k, v = random_heads(1, 1, 9, HEADS, GROUPS, SIZE)
    whole = expected(p, cfg, q, k, v)
    one = jax.jit(lambda q, i: attend(q, k, v, i, bias=score_bias(p, cfg, 9), **plain(HEADS)))
    for i in (0, 6, 8):
        found, _ = one(q[:, i : i + 1], jnp.array([i]))
        np.testing.assert_allclose(found[:, 0], whole[:, i], atol=2e-5)


def test_cope_does_not_count_padded_keys() -> None:
    """Three padded tokens in front change nothing of what follows: positions are counted from the query backwards."""
    cfg, p = made("cope")
    q, k, v = random_heads(1, 1, 9, HEADS, GROUPS, SIZE)
    padding = (jnp.arange(9) >= 3)[None]
    found, _ = jax.jit(lambda q: attention(q, k, v, padding=padding, bias=score_bias(p, cfg, 9), **plain(HEADS)))(q)
    np.testing.assert_allclose(found[:, 3:], expected(p, cfg, q[:, 3:], k[:, 3:], v[:, 3:]), atol=2e-5)
