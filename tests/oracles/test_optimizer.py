"""SGD and Muon over several steps against torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from leadline.experiments.config.train import Muon, Sgd
from tests.experiments.config.test_to_optimizer import steps, tree
from tests.oracles.compare import to_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("mesh")]
SEEDS = (0, 1, 2)


@pytest.fixture(autouse=True)
def standard_promotion():
    """optax raises a float to the power of an integer."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def theirs(rule: type[torch.optim.Optimizer], shape: tuple[int, ...], gradients: list[jax.Array], **settings) -> np.ndarray:
    """Where three steps take a weight of zeros."""
    weight = torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64))
    optimizer = rule([weight], lr=0.1, **settings)
    for gradient in gradients:
        weight.grad = to_torch(gradient).reshape(shape)
        optimizer.step()
    return weight.detach().numpy()


def test_sgd():
    moved = sum(np.asarray(update.blocks.query) for update in steps(Sgd(momentum=0.8), [tree(s) for s in SEEDS]))
    gradients = [tree(s).blocks.query for s in SEEDS]
    np.testing.assert_allclose(moved, theirs(torch.optim.SGD, moved.shape, gradients, momentum=0.8), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "shape"), [("query", (8, 8)), ("key", (8, 4)), ("output", (8, 8))])
def test_the_first_step_of_muon(name, shape):
    """torch iterates in bfloat16, whose rounding is the difference. Later steps differ by the correction of the momentum's
    bias, which optax has and torch has not."""
    (update,) = steps(Muon(), [tree(0)])
    for layer in range(2):
        step, gradient = (np.asarray(getattr(p.blocks, name))[layer].reshape(shape) for p in (update, tree(0)))
        settings = {"momentum": 0.95, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}
        expected = theirs(torch.optim.Muon, shape, [jnp.asarray(gradient)], **settings)
        assert np.abs(step - expected).max() < 0.1 * np.abs(expected).max()
