"""The rows of an embedding under AdamW against torch's, with its padding_idx."""

import jax
import numpy as np
import pytest
import torch

from leadline.experiments.config.train import TrainConfig
from leadline.experiments.measure.exact.embedding_training import trained_rows

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
