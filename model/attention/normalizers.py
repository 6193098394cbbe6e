"""Normalizers: what turns the scores of a query into the weights of the values.

A normalizer maps scores [*B, S], -inf where a key is not visible, and the sink logit [*#B] to `Terms`. To add one, write its
function here and its row in `NORMALIZERS`.
"""

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float


class Terms(NamedTuple):
    """The weights p_j = numerators_j / total of the values. They are not divided, since one division of the output is cheaper.

    Attributes:
        numerators: of every key; 0 for a key that is not visible.
        total: divisor of the output; 1 for a normalizer that does not normalise.
        sink: numerator of the sink logit.
        mass: Σ_j |numerators_j| + sink, or 1 where that is 0. Statistics are shares of it, so that weights that do not sum to 1
            are comparable with the others (the proxy of Gu et al. 2025, arXiv:2410.10781).
        lse: logarithm of the softmax denominator, or 0 where that is 0; None for the other normalizers.
    """

    numerators: Float[Array, "*B S"]
    total: Float[Array, "*B"]
    sink: Float[Array, "*B"]
    mass: Float[Array, "*B"]
    lse: Float[Array, "*B"] | None = None


# Of scores [*B, S] and the sink logit [*#B], which only softmax and clipped softmax use. A pytree: its parameters are leaves.
Normalizer = Callable[[Float[Array, "*B S"], Float[Array, "*#B"]], Terms]

EPSILON = 1e-8  # softpick's published code; it keeps the weights of a query without positive scores at 0


def softmax(scores: Float[Array, "*B S"], sink_logit: Float[Array, "*#B"]) -> Terms:
    """Softmax with one logit b without a value in the denominator.

        p_j = e^(s_j - m) / (e^(b - m) + Σ_j' e^(s_j' - m)),      m = max(b, max_j s_j)

    b = -inf is the plain softmax, b = 0 the softmax off by one (Miller 2023), a trained b the learned sink of gpt-oss (OpenAI
    2025). b is not scaled by 1/sqrt(H). A query for which every score and b are -inf has p = 0.

    Args:
        scores: float32 or better, -inf for keys that are not visible.
        sink_logit: b, which broadcasts.
    """
    largest = jax.lax.stop_gradient(jnp.maximum(jnp.max(scores, axis=-1), sink_logit))
    largest = finite(largest)
    numerators = jnp.exp(scores - largest[..., None])
    sink = jnp.exp(sink_logit - largest)  # 0 where b = -inf
    total = nonzero(sink + jnp.sum(numerators, axis=-1))
    return Terms(numerators, total, sink, total, largest + jnp.log(total))


def clipped_softmax(
    scores: Float[Array, "*B S"], sink_logit: Float[Array, "*#B"], low: Float[Array, ""], high: Float[Array, ""]
) -> Terms:
    """p_j = clip((high - low) · softmax(s)_j + low, 0, 1), low <= 0, high >= 1 (Bondarenko et al. 2023, arXiv:2306.12929).

    low = 0, high = 1 is the softmax; low = -α / T with 1 < α < 4 is the paper's recipe for T tokens. The weights do not sum to
    1, and clipped weights have no gradient. The sink logit takes part in the softmax; its own share is not clipped.

    Args:
        scores: float32 or better, -inf for keys that are not visible.
        sink_logit: that of `softmax`.
        low: the lower end of the stretched weights.
        high: their upper end.
    """
    plain = softmax(scores, sink_logit)
    stretched = (high - low) * (plain.numerators / plain.total[..., None]) + low
    weights = jnp.clip(stretched, 0, 1)
    sink = plain.sink / plain.total
    mass = jnp.sum(weights, axis=-1) + sink
    return Terms(weights, jnp.ones_like(mass), sink, nonzero(mass))


def softpick(scores: Float[Array, "*B S"], _sink_logit: Array | None = None, *, by_sum: bool = False) -> Terms:
    """p_j = relu(e^(s_j) - 1) / (Σ_j' |e^(s_j') - 1| + ε) over visible keys (Zuhri et al. 2025, arXiv:2504.20966).

    Scores below 0 get no weight, but a gradient through the denominator, unless `by_sum`. Numerators and denominator are
    multiplied by e^-m, m = max(0, max_j s_j).

    Args:
        scores: -inf for keys that are not visible.
        by_sum: the denominator is Σ_j' relu(e^(s_j') - 1) + ε, so that the weights sum to 1 where a score is above 0.
    """
    largest = jax.lax.stop_gradient(jnp.maximum(jnp.max(scores, axis=-1, keepdims=True), 0))
    risen = jnp.where(jnp.isfinite(scores), jnp.exp(scores - largest) - jnp.exp(-largest), 0)
    numerators = jax.nn.relu(risen)
    return _without_sink(numerators, jnp.sum(numerators if by_sum else jnp.abs(risen), axis=-1) + EPSILON)


def rectified(
    scores: Float[Array, "*B S"], _sink_logit: Array | None = None, *, divisor: Literal["one", "keys", "sum"]
) -> Terms:
    """p_j = relu(s_j) / d.

    Divided by the number of visible keys it is the attention in which sinks do not arise (Guo et al. 2024, arXiv:2410.13835;
    Wortsman et al. 2023, arXiv:2309.08586, divide by the length of the whole text).

    Args:
        scores: -inf for keys that are not visible.
        divisor: d is 1 ("one"), the number of visible keys ("keys"), or Σ_j' relu(s_j') + ε ("sum").
    """
    numerators = jax.nn.relu(scores)
    mass = jnp.sum(numerators, axis=-1)
    match divisor:
        case "one":
            total = jnp.ones_like(mass)
        case "keys":
            total = jnp.maximum(jnp.sum(jnp.isfinite(scores), axis=-1), 1).astype(mass.dtype)
        case "sum":
            total = mass + EPSILON
    return _without_sink(numerators, total)


def sigmoid(
    scores: Float[Array, "*B S"], _sink_logit: Array | None = None, *, bias: Float[Array, ""], normalised: bool
) -> Terms:
    """p_j = σ(s_j + b), divided by Σ_j' σ(s_j' + b) if `normalised`.

    b = -ln T starts with the mass 1 / (1 + 1/T) where all T scores are 0 (Ramapuram et al. 2024, arXiv:2409.04431). Normalised,
    keys compete again (Gu et al. 2025, arXiv:2410.10781, Table 6).
    """
    numerators = jax.nn.sigmoid(scores + bias)  # 0 at -inf
    mass = nonzero(jnp.sum(numerators, axis=-1))
    return _without_sink(numerators, mass if normalised else jnp.ones_like(mass))


# By name, with the parameters [2] of the layer (model.attention.hyperparameters).
NORMALIZERS: dict[str, Callable[[Float[Array, " 2"]], Normalizer]] = {
    "softmax": lambda _: Partial(softmax),
    "clipped": lambda parameters: Partial(clipped_softmax, low=parameters[0], high=parameters[1]),
    "softpick": lambda _: Partial(softpick),
    "softpick_by_sum": lambda _: Partial(functools.partial(softpick, by_sum=True)),
    "relu": lambda _: Partial(functools.partial(rectified, divisor="one")),
    "relu_by_keys": lambda _: Partial(functools.partial(rectified, divisor="keys")),
    "relu_by_sum": lambda _: Partial(functools.partial(rectified, divisor="sum")),
    "sigmoid": lambda parameters: Partial(functools.partial(sigmoid, normalised=False), bias=parameters[0]),
    "sigmoid_by_sum": lambda parameters: Partial(functools.partial(sigmoid, normalised=True), bias=parameters[0]),
}

# Those that put the sink logit into their denominator.
WITH_SINK_LOGIT = ("softmax", "clipped")


def is_softmax(normalizer: Normalizer) -> bool:
    """Whether the gradient can be computed from the log-sum-exp (model.attention.attention)."""
    return isinstance(normalizer, Partial) and normalizer.func is softmax


def finite(largest: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """The largest score of each query, 0 where a query sees nothing."""
    return jnp.where(jnp.isfinite(largest), largest, 0)


def nonzero(total: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """A divisor: 1 where the total is 0."""
    return jnp.where(total == 0, 1, total)


def _without_sink(numerators: Float[Array, "*B S"], total: Float[Array, "*B"]) -> Terms:
    return Terms(numerators, total, jnp.zeros_like(total), nonzero(jnp.sum(numerators, axis=-1)))
