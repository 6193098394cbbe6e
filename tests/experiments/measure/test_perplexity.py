"""Losses of windows against numpy's means."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.measure.perplexity import mean_loss

LOSSES = np.random.default_rng(0).gamma(2.0, size=(3, 10)).astype(np.float32)


def test_mean_loss_weighs_tokens_equally() -> None:
    assert mean_loss(jnp.asarray(LOSSES)) == pytest.approx(LOSSES.mean(), rel=1e-6)
    chosen = np.zeros(LOSSES.shape, bool)
    chosen[0, :7] = True
    chosen[1, 2] = True
    assert mean_loss(jnp.asarray(LOSSES), jnp.asarray(chosen)) == pytest.approx(LOSSES[chosen].mean(), rel=1e-6)


def test_last_loss_is_of_the_end_of_every_window() -> None:
    assert last_loss(jnp.asarray(LOSSES), 4) == pytest.approx(LOSSES[:, 6:].mean(), rel=1e-6)
    assert last_loss(jnp.asarray(LOSSES), 10) == pytest.approx(LOSSES.mean(), rel=1e-6)
    with pytest.raises(ValueError, match="the last 11 positions of a window of 10"):
        last_loss(jnp.asarray(LOSSES), 11)
