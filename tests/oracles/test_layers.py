"""Norms, feed-forward layers and losses against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from leadline.model.embedding import logits, token_losses
from leadline.model.feedforward import FeedForward, feedforward
from leadline.model.norm import layer_norm, rms_norm
from tests.oracles.compare import assert_close, assert_value_and_gradients, to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]


def draw(seed: int, *shape: int, scale: float = 1.0) -> jax.Array:
    return jnp.asarray(scale * np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def test_rms_norm():
    arguments = draw(0, 2, 5, 12, scale=3), draw(1, 12)
    assert_value_and_gradients(rms_norm, lambda x, scale: F.rms_norm(x, (12,), scale, eps=1e-6), arguments)


def test_layer_norm():
    arguments = 2 + draw(2, 2, 5, 12, scale=3), draw(3, 12), draw(4, 12)
    assert_value_and_gradients(layer_norm, lambda x, scale, bias: F.layer_norm(x, (12,), scale, bias, eps=1e-5), arguments)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_plain_feedforward(activation):
    arguments = draw(5, 2, 5, 6, scale=2), draw(6, 6, 10), draw(7, 10, 6)
    assert_value_and_gradients(
        lambda x, up, down: feedforward(FeedForward(up=up, gate=None, down=down), x, activation),
        lambda x, up, down: getattr(F, activation)(x @ up) @ down,
        arguments,
    )


def test_swiglu():
    arguments = draw(8, 2, 5, 6, scale=2), draw(9, 6, 10), draw(10, 6, 10), draw(11, 10, 6)
    assert_value_and_gradients(
        lambda x, up, gate, down: feedforward(FeedForward(up=up, gate=gate, down=down), x, "swiglu"),
        lambda x, up, gate, down: (F.silu(x @ gate) * (x @ up)) @ down,
        arguments,
    )


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_cross_entropy_of_logits(scale):
    targets = np.random.default_rng(12).integers(0, 11, (2, 5))
    arguments = draw(13, 2, 5, 6, scale=scale), draw(14, 11, 6)

    def ours(x, table):
        return token_losses(logits(x, table), jnp.asarray(targets, jnp.int32))

    def theirs(x, table):
        return F.cross_entropy((x @ table.T).transpose(1, 2), to_torch(targets), reduction="none")

    assert_value_and_gradients(ours, theirs, arguments)
    assert_close(jnp.mean(ours(*arguments)), F.cross_entropy(*_flat(arguments, targets)), 1e-5)


def _flat(arguments: tuple[jax.Array, jax.Array], targets: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    x, table = (to_torch(y) for y in arguments)
    return (x @ table.T).reshape(-1, 11), to_torch(targets.reshape(-1))
