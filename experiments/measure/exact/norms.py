"""What the output of a text depends on after a norm: on itself alone, or on other texts, padding and later tokens."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from leadline.experiments.config.exact import Norms
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.records.measurement import Point, scalars
from leadline.model.norm import init_norm, normalise

SEED = 0  # of the vectors
EPSILON = 1e-5  # of BatchNorm, as in its paper's and torch's code
# Tokens of padding for each real one, besides none: their vectors are 0.
PADDED = (1, 3)
Batch = Float[Array, "B T D"]
Apply = Callable[[Batch, Bool[Array, "B T"]], Batch]


def batch_norm(x: Batch, counted: Bool[Array, "B T"]) -> Batch:
    """(x - μ) / sqrt(σ² + ε), μ and σ² of each channel over all counted tokens of the batch, as in training.

    Ioffe and Szegedy 2015, arXiv:1502.03167, Algorithm 1, with a scale of 1 and a shift of 0.

    Args:
        x: vectors.
        counted: tokens that μ and σ² are of.
    """
    real = counted[..., None].astype(x.dtype)
    weights = real / jnp.sum(real)
    mean = jnp.sum(weights * x, axis=(0, 1), keepdims=True)
    variance = jnp.sum(weights * jnp.square(x - mean), axis=(0, 1), keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON)


def norms(width: int) -> Mapping[str, Apply]:
    """The norms by name, as functions of vectors and of which tokens are real."""
    layer, rms = init_norm(width, bias=True), init_norm(width, bias=False)
    return {
        "LayerNorm": lambda x, real: normalise(layer, x),  # noqa: ARG005
        "RMSNorm": lambda x, real: normalise(rms, x),  # noqa: ARG005
        "BatchNorm": lambda x, real: batch_norm(x, jnp.ones_like(real)),
        "BatchNorm of real tokens": batch_norm,
    }


def jobs(exact: Norms) -> list[Job]:
    """One job."""
    return [Job("norms", "norms", exact, independent(_computed, exact))]


def _computed(exact: Norms) -> Computed:
    point: Point = {}
    for name, norm in norms(exact.width).items():
        for changed, difference in differences(norm, exact).items():
            point |= scalars({"largest_difference": difference}, norm=name, changed=changed)
        for padded in (0, *PADDED):
            point |= scalars({"vector_deviation": deviation(norm, exact, padded)}, norm=name, padding=padded)
        point |= scalars({"largest_entry": alone(norm, exact)}, norm=name)
    return Computed(point)


def drawn(exact: Norms, seed: int = SEED) -> Batch:
    """Vectors of N(0, 1)."""
    return jax.random.normal(jax.random.key(seed), (exact.texts, exact.tokens, exact.width))


def differences(norm: Apply, exact: Norms) -> dict[str, float]:
    """The largest difference in the output of the first text, by what is changed around it.

    Changed are the other texts of its batch, where as many tokens of padding follow each text as it has; this padding; or
    the later half of its own tokens, of which the first half does not know in a causal model.
    """
    x, others, T = drawn(exact), drawn(exact, SEED + 1), exact.tokens
    real = jnp.ones(x.shape[:2], bool)
    before = norm(x, real)[0]
    longer = norm(*padded(x, T))[0, :T]
    of_others = norm(*padded(others.at[0].set(x[0]), T))[0, :T]
    of_later = norm(x.at[0, T // 2 :].set(others[0, T // 2 :]), real)[0, : T // 2]
    pairs = {"other texts": (of_others, longer), "padding": (longer, before), "later tokens": (of_later, before[: T // 2])}
    return {name: float(jnp.max(jnp.abs(after - without))) for name, (after, without) in pairs.items()}


def padded(x: Batch, count: int) -> tuple[Float[Array, "B longer D"], Bool[Array, "B longer"]]:
    """Texts with vectors of 0 after them, and which tokens are real."""
    longer = jnp.pad(x, [(0, 0), (0, count), (0, 0)])
    return longer, jnp.broadcast_to(jnp.arange(longer.shape[1]) < x.shape[1], longer.shape[:2])


def deviation(norm: Apply, exact: Norms, padding: int) -> float:
    """The standard deviation of the entries of real tokens with so many tokens of padding after each.

    After a BatchNorm that counts padding it is sqrt(1 + padding): zeros make σ² that much smaller where μ is 0.
    """
    y = norm(*padded(drawn(exact), padding * exact.tokens))[:, : exact.tokens]
    return float(np.asarray(y, np.float64).std())


def alone(norm: Apply, exact: Norms) -> float:
    """The largest entry of the output of a batch of one token."""
    x = drawn(exact)[:1, :1]
    return float(jnp.max(jnp.abs(norm(x, jnp.ones((1, 1), bool)))))
