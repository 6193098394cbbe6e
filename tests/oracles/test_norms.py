"""BatchNorm, which the study of norms compares with, against torch's in training."""

import jax.numpy as jnp
import pytest
import torch

from leadline.experiments.measure.exact.norms import EPSILON, batch_norm
from tests.model.naive import numbers
from tests.oracles.compare import assert_value_and_gradients

pytestmark = pytest.mark.oracle


def test_batch_norm_is_that_of_torch() -> None:
    """Value and gradient, over all tokens of a batch."""

    def theirs(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        return torch.nn.functional.batch_norm(flat, None, None, training=True, eps=EPSILON).reshape(x.shape)

    assert_value_and_gradients(lambda x: batch_norm(x, jnp.ones(x.shape[:2], bool)), theirs, (2 * numbers(1, 3, 5, 4) + 1,))
