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
from tests.model.naive import numbers
from tests.oracles.compare import assert_value_and_gradients

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]

TARGETS = np.random.default_rng(12).integers(0, 11, (2, 5))


def plain(activation):
    return lambda x, up, down: feedforward(FeedForward(up=up, gate=None, down=down), x, activation)


def losses(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy((x @ table.T).transpose(1, 2), torch.from_numpy(TARGETS), reduction="none")


# Ours, theirs, and the shapes of the arguments, the first of which is large.
LAYERS = {
    "RMSNorm": (rms_norm, lambda x, scale: F.rms_norm(x, (12,), scale, eps=1e-6), ((2, 5, 12), (12,))),
    "LayerNorm": (
        layer_norm,
        lambda x, scale, bias: F.layer_norm(x, (12,), scale, bias, eps=1e-5),
        ((2, 5, 12), (12,), (12,)),
    ),
    "gelu": (plain("gelu"), lambda x, up, down: F.gelu(x @ up) @ down, ((2, 5, 6), (6, 10), (10, 6))),
    "relu": (plain("relu"), lambda x, up, down: F.relu(x @ up) @ down, ((2, 5, 6), (6, 10), (10, 6))),
    "SwiGLU": (
        lambda x, up, gate, down: feedforward(FeedForward(up=up, gate=gate, down=down), x, "swiglu"),
        lambda x, up, gate, down: (F.silu(x @ gate) * (x @ up)) @ down,
        ((2, 5, 6), (6, 10), (6, 10), (10, 6)),
    ),
    "losses": (lambda x, table: token_losses(logits(x, table), jnp.asarray(TARGETS, jnp.int32)), losses, ((2, 5, 6), (11, 6))),
}


@pytest.mark.parametrize("scale", [3.0, 50.0])
@pytest.mark.parametrize("name", LAYERS)
def test_value_and_gradients(name: str, scale: float) -> None:
    ours, theirs, shapes = LAYERS[name]
    x, *weights = (numbers(seed, *shape) for seed, shape in enumerate(shapes))
    arguments: list[jax.Array] = [scale * x + 2, *weights]
    assert_value_and_gradients(ours, theirs, arguments, tolerance=2e-5)
