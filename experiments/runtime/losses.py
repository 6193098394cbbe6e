"""The losses of models that train together, in a line that fits."""

from collections.abc import Sequence

import numpy as np

# Diverged arms that are named one by one.
NAMED = 3


def losses_by_arm(arms: Sequence[str], losses: np.ndarray, diverged: Sequence[bool], width: int) -> str:
    """The mean loss of each arm, or the lowest and the highest where those of all arms are too long.

    Args:
        arms: of each model, the arm.
        losses: [models], of a step [nats].
        diverged: of each model, whether it has diverged. The mean is that of the others; the arm is named at the end.
        width: characters that there is room for. Only the second form, and the names of diverged arms, may exceed it.
    """
    by_arm: dict[str, list[float]] = {}
    for arm, loss, wild in zip(arms, losses, diverged, strict=True):
        if not wild:
            by_arm.setdefault(arm, []).append(float(loss))
    means = {arm: float(np.mean(values)) for arm, values in by_arm.items()}
    wild = list(dict.fromkeys(arm for arm, gone in zip(arms, diverged, strict=True) if gone))
    more = f" and {len(wild) - NAMED} more" if len(wild) > NAMED else ""
    last = [f"diverged: {', '.join(wild[:NAMED])}{more}"] if wild else []
    each = ", ".join(["loss " + ", ".join(f"{arm} {mean:.3f}" for arm, mean in means.items())] * bool(means) + last)
    if len(each) <= width or len(means) < 2:
        return each
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return ", ".join([f"loss {means[low]:.3f} ({low}) to {means[high]:.3f} ({high}) in {len(means)} arms", *last])
