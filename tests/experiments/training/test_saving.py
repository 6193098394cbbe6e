"""The history of a group: which of its members diverged."""

import numpy as np

from leadline.experiments.records.record import NO_CURVE
from leadline.experiments.training.saving import History


def test_a_member_diverges_once_where_its_loss_is_above_the_limit_or_anything_is_not_finite() -> None:
    history = History([NO_CURVE] * 4, [None] * 4)
    metrics = {
        "loss": np.array([1.0, np.nan, 7.0, 1.0], np.float32),
        "finite_layers": np.array([[True, True], [True, False], [True, True], [True, True]]),
        "finite_gradients": np.array([[True, True, True]] * 3 + [[True, False, True]]),
    }
    assert history.note_divergence(3, metrics, limit=6.0) == [
        (1, "the loss was nan at step 3; layer 2 was not finite first"),
        (2, "the loss was 7 at step 3; it counts as diverged above 6.00 nats"),
        (3, "the loss was 1 at step 3; the gradient of layer 1 was not finite first"),
    ]
    assert [diverged and diverged[0] for diverged in history.diverged] == [None, 3, 3, 3]
    assert history.note_divergence(4, metrics, limit=6.0) == []
