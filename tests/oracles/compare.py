"""Between JAX and torch: float32 here, float64 there, so that differences are our rounding."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch


def to_torch(x: jax.Array | np.ndarray, *, gradient: bool = False) -> torch.Tensor:
    """The same numbers, floats as float64."""
    copied = torch.from_numpy(np.array(x))
    return copied.double().requires_grad_(gradient) if copied.is_floating_point() else copied


def assert_close(ours: jax.Array, expected: torch.Tensor, tolerance: float, what: str = "") -> None:
    """Within `tolerance` times the largest expected number, or times one if that is smaller."""
    reference = expected.detach().numpy()
    scale = max(1.0, float(np.abs(reference).max(initial=0)))
    np.testing.assert_allclose(np.asarray(ours, np.float64), reference, atol=tolerance * scale, rtol=0, err_msg=what)


def assert_same_gradients(ours: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Two trees of the weights of a model, each leaf as `assert_close`. Sink logits are left out, since no library has them."""
    for (path, leaf), (_, other) in zip(*map(jax.tree_util.tree_leaves_with_path, (ours, expected)), strict=True):
        if path[-1].name != "sink_logit":
            assert_close(leaf, torch.from_numpy(np.array(other)), tolerance, jax.tree_util.keystr(path))


def assert_value_and_gradients(
    ours: Callable[..., jax.Array],
    theirs: Callable[..., torch.Tensor],
    arguments: Sequence[jax.Array],
    *,
    weights: jax.Array | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Equal outputs, and equal gradients of their sum with `weights` (absent: random ones) in every argument."""
    value = jax.jit(ours)(*arguments)
    rng = np.random.default_rng(7)
    w = jnp.asarray(rng.standard_normal(value.shape).astype(np.float32)) if weights is None else weights
    gradients = jax.jit(jax.grad(lambda *xs: jnp.sum(w * ours(*xs)), tuple(range(len(arguments)))))(*arguments)
    copies = [to_torch(x, gradient=True) for x in arguments]
    reference = theirs(*copies)
    counted = to_torch(w)
    (counted * reference).sum().backward()
    assert_close(jnp.where(w == 0, 0, value), torch.where(counted == 0, 0, reference), tolerance, "value")
    for i, (gradient, copy) in enumerate(zip(gradients, copies, strict=True)):
        assert copy.grad is not None
        assert_close(gradient, copy.grad, tolerance, f"gradient of argument {i}")
