"""Decay of xPos: its envelope, its dependence on distance, and how far it goes."""

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import rotate, rotation_of
from leadline.model.positions.xpos import xpos_decay, xpos_longest

SIZE = 16


def vectors(seed: int) -> jnp.ndarray:
    return jnp.asarray(np.random.default_rng(seed).standard_normal((1, 6, 1, SIZE)), jnp.float32)


def scores(q, k, positions: np.ndarray, scale_base: float = 32.0) -> np.ndarray:
    """q·k with the factors of both, pairs in halves."""
    decay = np.concatenate([xpos_decay(SIZE, scale_base=scale_base)] * 2)
    rotation = rotation_of(jnp.asarray(positions), inverse_frequencies(SIZE, 1e4))
    q, k = (
        rotate(x, rotation) * jnp.asarray(np.exp(sign * positions[:, None] * decay), jnp.float32)[None, :, None, :]
        for x, sign in ((q, 1), (k, -1))
    )
    return np.asarray(jnp.einsum("bqnh,bsnh->qs", q, k), np.float64)


def test_decay_at_known_numbers():
    """d = 4, gamma = 0.4: zeta = 0.4 / 1.4 and 0.9 / 1.4."""
    np.testing.assert_allclose(xpos_decay(4), np.log([2 / 7, 9 / 14]) / 512)


def test_fast_pairs_fade_sooner_and_none_grows():
    decay = xpos_decay(64)
    assert (np.diff(decay) > 0).all()
    assert (decay < 0).all()


@pytest.mark.parametrize("shift", [1, 17, 300])
def test_scores_depend_on_distance_only(shift):
    q, k, positions = vectors(0), vectors(1), np.arange(6) * 7
    here = scores(q, k, positions)
    causal = np.tril(np.ones_like(here))
    np.testing.assert_allclose(causal * scores(q, k, positions + shift), causal * here, atol=2e-3)


def test_one_pair_is_that_of_rope_times_a_decay_of_the_distance():
    """A query and a key in one pair of channels, so that the score is one rotation times one power of zeta."""
    only = jnp.zeros((1, 6, 1, SIZE)).at[..., 3].set(1.0)
    positions = np.arange(6) * 9
    distance = np.tril(positions[:, None] - positions[None, :])
    plain = np.cos(distance * inverse_frequencies(SIZE, 1e4)[3])
    zeta = (6 / SIZE + 0.4) / 1.4
    found = scores(only, only, positions)
    lower = np.tril_indices(6)
    np.testing.assert_allclose(found[lower], (plain * zeta ** (distance / 32))[lower], atol=1e-5)
    assert (np.abs(found[lower]) <= np.abs(plain[lower]) + 1e-6).all()


@pytest.mark.parametrize("head_dim", [8, 64, 128])
def test_the_longest_text_stays_within_float32_and_one_twice_as_long_does_not(head_dim):
    longest = xpos_longest(head_dim)
    decay = xpos_decay(head_dim)
    with np.errstate(over="ignore", under="ignore"):
        within = np.exp(decay * (longest - 1)).astype(np.float32), np.exp(-decay * (longest - 1)).astype(np.float32)
        beyond = np.exp(-decay * 2 * longest).astype(np.float32)
    normal = np.finfo(np.float32)
    assert within[0].min() >= 0.999 * normal.tiny * 2**16
    assert within[1].max() <= normal.max / 2**16
    assert np.isinf(beyond).any()
    assert xpos_longest(head_dim, scale_base=1024.0) == pytest.approx(2 * longest, abs=2)


@pytest.mark.parametrize(("bad", "why"), [({"head_dim": 5}, "5 must be even"), ({"head_dim": 4, "gamma": 0.0}, "gamma > 0")])
def test_impossible_numbers_are_an_error(bad, why):
    with pytest.raises(ValueError, match=why):
        xpos_decay(**bad)
