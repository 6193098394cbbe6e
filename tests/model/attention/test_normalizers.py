"""One contract over all normalizers: their equation in float64, their sums, their gradients, and rows that see nothing."""

import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from leadline.model.attention.normalizers import NORMALIZERS, Terms, is_softmax

PARAMETERS = jnp.asarray([-0.05, 1.2])  # low and high of the clipped softmax; the first is the bias of a sigmoid
ALL = pytest.mark.parametrize("name", NORMALIZERS)


def softmax64(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def by_sum(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(-1, keepdims=True)


def softpick64(x: np.ndarray) -> np.ndarray:
    risen = np.where(np.isfinite(x), np.expm1(x), 0)
    return np.maximum(risen, 0) / np.abs(risen).sum(-1, keepdims=True)


def sigmoid64(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(0.05 - x))


EQUATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softmax": softmax64,
    "clipped": lambda x: np.clip(1.25 * softmax64(x) - 0.05, 0, 1),
    "softpick": softpick64,
    "softpick_by_sum": lambda x: by_sum(softpick64(x)),
    "relu": lambda x: np.maximum(x, 0),
    "relu_by_keys": lambda x: np.maximum(x, 0) / 9,
    "relu_by_sum": lambda x: by_sum(np.maximum(x, 0)),
    "sigmoid": sigmoid64,
    "sigmoid_by_sum": lambda x: by_sum(sigmoid64(x)),
}


def scores(scale: float = 1.0) -> jax.Array:
    """[4, 3, 11], of which the last two keys are not visible."""
    drawn = scale * np.random.default_rng(0).standard_normal((4, 3, 11))
    drawn[..., -2:] = -np.inf
    return jnp.asarray(drawn, jnp.float32)


def terms(name: str, x: jax.Array, logit: float = -np.inf) -> Terms:
    return NORMALIZERS[name](PARAMETERS)(x, jnp.full((1,) * (x.ndim - 1), logit))


def weights(parts: Terms) -> jax.Array:
    return parts.numerators / parts.total[..., None]


@functools.partial(jax.jit, static_argnames=("name", "summed"))
def with_gradient(name: str, x: jax.Array, summed: int | None = None) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The weights, their mass, and the gradient of the sum of the first ones."""

    def total(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        parts = terms(name, x)
        return jnp.sum(weights(parts)[..., :summed]), (weights(parts), parts.mass)

    gradient, (of_keys, mass) = jax.grad(total, has_aux=True)(x)
    return of_keys, mass, gradient


@ALL
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_weights_are_those_of_the_equation(name: str, scale: float) -> None:
    x = scores(scale)
    np.testing.assert_allclose(weights(terms(name, x)), EQUATIONS[name](np.asarray(x, np.float64)), atol=3e-6, rtol=3e-6)


@ALL
def test_statistics_are_shares_of_the_absolute_weights_and_the_softmax_alone_has_a_log_sum_exp(name: str) -> None:
    parts = terms(name, scores(), 0.3 if name in ("softmax", "clipped") else -np.inf)
    np.testing.assert_allclose(parts.mass, np.sum(np.abs(parts.numerators), axis=-1) + np.asarray(parts.sink), rtol=1e-6)
    assert is_softmax(NORMALIZERS[name](PARAMETERS)) == (parts.lse is not None) == (name == "softmax")


@ALL
def test_gradients_are_finite_differences(name: str) -> None:
    x = jnp.asarray([[0.9, 0.3, -0.4, -1.2]])
    check_grads(jax.jit(lambda x: weights(terms(name, x))), (x,), order=1, modes=("rev",), atol=1e-3, rtol=1e-3, eps=1e-2)


@ALL
@pytest.mark.parametrize("score", [-200.0, 200.0])
def test_scores_of_any_size_are_finite(name: str, score: float) -> None:
    of_keys, _, gradient = with_gradient(name, jnp.asarray([[score, score + 1]]))
    assert np.isfinite(of_keys).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("names", "score"), [(NORMALIZERS, -np.inf), (("relu", "relu_by_keys", "relu_by_sum", "softpick", "softpick_by_sum"), -0.5)]
)
def test_a_row_that_sees_nothing_or_attends_to_nothing_has_no_weights_and_finite_gradients(
    names: Iterable, score: float
) -> None:
    for name in names:
        of_keys, mass, gradient = with_gradient(name, jnp.full((1, 5), score))
        np.testing.assert_array_equal(of_keys, 0, err_msg=name)
        np.testing.assert_array_equal(mass, 1, err_msg=name)
        assert np.isfinite(gradient).all(), name


def test_only_softpick_by_absolute_values_has_a_gradient_where_a_weight_is_zero() -> None:
    negative = np.array([[1.0, -1.0]])
    for name, x in (("clipped", np.log([[0.97, 0.02, 0.01]])), ("softpick", negative), ("softpick_by_sum", negative)):
        of_keys, _, gradient = with_gradient(name, jnp.asarray(x, jnp.float32), summed=1)
        assert of_keys[0, -1] == 0
        assert np.any(np.abs(gradient) > 1e-6) == (name == "softpick")  # ε adds about 1e-8
