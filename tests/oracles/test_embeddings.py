"""The rows of an embedding under AdamW, and the embedding of padding, against torch's with its padding_idx."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from leadline.experiments.config.train import TrainConfig
from leadline.experiments.measure.exact.embedding_training import trained_rows
from leadline.model.embedding import embed
from leadline.model.mesh import make_mesh
from tests.model.naive import numbers

pytestmark = pytest.mark.oracle
CFG = TrainConfig(steps=40, batch=1, learning_rate=1e-2, weight_decay=0.1)


def test_rows_move_as_torch_moves_them() -> None:
    """Row 0 is PAD, row 1 is looked up at each step, row 2 at step 11 alone, row 3 never."""
    rows = np.array([[0.0] * 8, [1.0] * 8, [0.5] * 8, [-2.0] * 8])
    table = torch.nn.Embedding(4, 8, padding_idx=0, dtype=torch.float64)
    table.weight.data = torch.tensor(rows)
    rule = torch.optim.AdamW(table.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    gradients, expected = np.zeros((40, 4)), []
    for step in range(40):
        ids = [0, 1, 2] if step == 10 else [0, 1]
        gradients[step, [row for row in ids if row]] = 1.0
        rule.zero_grad()
        table(torch.tensor(ids)).sum().backward()
        rule.step()
        expected.append(table.weight.detach().numpy().copy())
    with jax.numpy_dtype_promotion("standard"):
        ours = trained_rows(rows, gradients, CFG)
    np.testing.assert_allclose(ours, np.stack(expected), rtol=1e-4, atol=1e-6)
    assert not ours[:, 0].any()


def test_padding_is_embedded_and_trained_as_in_torch() -> None:
    """In torch the row of padding is zero from the start; here it may hold anything."""
    rows, ids, weights = np.asarray(numbers(0, 5, 4)), np.array([[1, 0, 3], [0, 4, 3]]), np.asarray(numbers(1, 2, 3, 4))
    table = torch.nn.Embedding(5, 4, padding_idx=0)
    table.weight.data[1:] = torch.tensor(rows[1:])
    x = table(torch.tensor(ids))
    (torch.tensor(weights) * x).sum().backward()
    with jax.set_mesh(make_mesh()):
        ours = embed(jnp.asarray(rows), jnp.asarray(ids), scaled=False, zero_id=0)
        gradient = jax.grad(lambda table: jnp.sum(weights * embed(table, jnp.asarray(ids), scaled=False, zero_id=0)))(
            jnp.asarray(rows)
        )
    np.testing.assert_array_equal(ours, x.detach().numpy())
    assert table.weight.grad is not None
    np.testing.assert_allclose(gradient, table.weight.grad.numpy(), rtol=1e-6)
