"""Attention and its gradients by the kernels of the accelerator that is here, against whole matrices in float64 on the host."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.attention.attention import attention, form
from leadline.model.attention.mask import NO_WINDOW, Mask
from leadline.model.attention.scores import Scores
from leadline.model.mesh import make_mesh, platform
from tests.model.naive import numbers, random_heads, whole_attention

pytestmark = [
    pytest.mark.skipif(jax.default_backend() == "cpu", reason="needs a GPU or a TPU"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning"),
]

# (batch, tokens, query heads, key heads, channels): whole tiles, parts of tiles, and channels that are no power of two.
SHAPES = {"whole tiles": (2, 512, 4, 2, 64), "parts of tiles": (2, 300, 4, 4, 128), "padded channels": (1, 200, 2, 1, 80)}
# Window, initial tokens and chunk.
SIGHTS = {"causal": (NO_WINDOW, 0, NO_WINDOW), "window": (70, 4, NO_WINDOW), "chunks": (NO_WINDOW, 2, 96)}
# Of the largest number: float32 to its rounding over sums of 512; bfloat16 has 2^-8, a few times over.
TOLERANCE = {"float32": 2e-5, "bfloat16": 0.02}


def loss(given: Any, sight: Any, padding: Any, weights: Any, attend: Any) -> Any:
    window, initial_tokens, chunk = sight
    mask = Mask(window, initial_tokens, padding=padding, chunk=chunk)
    scores = Scores(sink_logit=given["sink_logit"], slopes=given["slopes"])
    out = attend(given["q"], given["k"], given["v"], mask, scores)[0]
    return jnp.sum((weights * out).astype(jnp.float32 if out.dtype == jnp.bfloat16 else out.dtype)), out


def case(shape: str, dtype: str) -> tuple[Any, Any, Any]:
    """Arguments rounded to `dtype`, padding before the second text, and weights without padded queries."""
    B, T, N, _, _ = SHAPES[shape]
    q, k, v = (x.astype(dtype) for x in random_heads(5, *SHAPES[shape]))
    padding = jnp.arange(T)[None, :] >= jnp.arange(B)[:, None] * 37
    weights = (numbers(6, *q.shape) * padding[:, :, None, None].astype(jnp.float32)).astype(dtype)
    logits, slopes = jnp.asarray([0.5, -jnp.inf, 2.0, 0.0])[:N], jnp.asarray([0.0, 0.3, 0.05, 1.0])[:N]
    return {"q": q, "k": k, "v": v, "sink_logit": logits, "slopes": slopes}, padding, weights


def exact(given: Any, sight: Any, padding: Any, weights: Any) -> Any:
    """Gradients and output of whole matrices in float64."""
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        wide, weights = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (given, weights))
        whole = functools.partial(loss, attend=lambda *arguments: whole_attention(*arguments)[:1])
        return jax.device_get(jax.jit(jax.grad(whole, has_aux=True))(wide, sight, np.asarray(padding), weights))


def largest_errors(computed: Any, expected: Any) -> dict[str, float]:
    """The largest error of each array, as a share of its largest number."""
    pairs = zip(jax.tree_util.tree_leaves_with_path(computed), jax.tree.leaves(expected), strict=True)
    return {
        jax.tree_util.keystr(path): float(np.abs(np.asarray(leaf, np.float64) - other).max() / max(1.0, np.abs(other).max()))
        for (path, leaf), other in pairs
    }


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_output_and_gradients_of_kernels_are_those_of_whole_matrices(shape: str, dtype: str) -> None:
    given, padding, weights = case(shape, dtype)
    _, T, _, _, channels = SHAPES[shape]
    assert form(T, T, device=platform(), channels=channels, itemsize=given["q"].dtype.itemsize) == "kernel"
    with jax.set_mesh(make_mesh()):
        gradient = jax.jit(jax.grad(functools.partial(loss, attend=attention), has_aux=True))
        for name, sight in SIGHTS.items():
            computed = jax.device_get(gradient(given, jax.tree.map(jnp.int32, sight), padding, weights))
            real = np.asarray(padding)[:, :, None, None]
            expected = exact(given, sight, padding, weights)
            computed, expected = ((g, np.where(real, np.asarray(out, np.float64), 0)) for g, out in (computed, expected))
            errors = largest_errors(computed, expected)
            assert max(errors.values()) < TOLERANCE[dtype], f"{name}: {errors}"


def test_a_sweep_over_windows_is_one_program_of_the_same_numbers() -> None:
    given, padding, weights = case("whole tiles", "float32")
    sights = tuple(jnp.asarray(column, jnp.int32) for column in zip(*SIGHTS.values(), strict=True))
    with jax.set_mesh(make_mesh()):
        gradient = jax.grad(functools.partial(loss, attend=attention), has_aux=True)
        together = jax.device_get(jax.jit(jax.vmap(gradient, in_axes=(None, 0, None, None)))(given, sights, padding, weights))
        for n in range(len(SIGHTS)):
            alone = jax.device_get(jax.jit(gradient)(given, jax.tree.map(lambda x, n=n: x[n], sights), padding, weights))
            errors = largest_errors(jax.tree.map(lambda x, n=n: x[n], together), jax.tree.map(np.float64, alone))
            assert max(errors.values()) < 1e-6
