"""Positions and the order of tokens: exact numbers, computed by the attention and the encodings that models run."""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.exact.attention_scores import attend, attention_weights, products, unmasked, waves
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores
from leadline.model.base_bound.sums import similarity_sums
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.rotation import rotate, rotation_of

HEADS = 8  # of ALiBi
PAIRS = 64  # tokens whose pairs are moved
DISTANCES = 4096  # tokens to the farthest key of a sum of cosines


def rotated(x: Float[Array, "B T N H"], base: float, positions: Int[np.ndarray, " T"]) -> Float[Array, "B T N H"]:
    """RoPE of x at its positions."""
    return rotate(x, rotation_of(jnp.asarray(positions), inverse_frequencies(x.shape[-1], base)))


def unit(head_dim: int, phase: float) -> Float[Array, " H"]:
    """A vector of length 1."""
    x = waves(head_dim, phase=phase)
    return x / jnp.linalg.norm(x)


def repeated_token(tokens: int, head_dim: int, base: float) -> dict[str, Float[np.ndarray, "N T S"]]:
    """Causal attention [heads, queries, keys] over a token that is repeated, by position encoding.

    All queries are one vector and all keys another, with |q| |k| / sqrt(d) = 1, so that every score is between -1 and 1.
    """
    length = head_dim**0.25
    q, k = (jnp.tile(length * unit(head_dim, phase), (1, tokens, 1, 1)) for phase in (1.0, 2.0))
    rotated_q, rotated_k = (rotated(x, base, np.arange(tokens)) for x in (q, k))
    slopes = Scores(slopes=jnp.asarray(alibi_slopes(HEADS), jnp.float32))
    return {
        "none": attention_weights(q, k)[0],
        "rope": attention_weights(rotated_q, rotated_k)[0],
        "alibi": attention_weights(jnp.repeat(q, HEADS, axis=2), k, scores=slopes)[0],
    }


def relative_weight(weights: Float[np.ndarray, "N T S"]) -> float:
    """max over heads and queries t > 1, counted from 1, of t · A_t1: 1 where attention is uniform."""
    return float((weights[:, 1:, 0] * np.arange(2, weights.shape[1] + 1)).max())


def away_from_uniform(weights: Float[np.ndarray, "N T S"]) -> float:
    """max |t · A_tj - 1| over heads and visible keys j <= t, counted from 1."""
    t = np.arange(1, weights.shape[1] + 1)[:, None]
    return float(np.abs(np.tril(weights * t - 1)).max())


def away_from_equivariance(tokens: int, *, causal: bool, base: float | None) -> float:
    """max |f(P x) - P f(x)| over all permutations P of the tokens, for attention f of 2 heads and 4 channels each.

    Args:
        tokens: of x.
        causal: whether a query sees its own and earlier keys only.
        base: of RoPE; None is no position encoding.
    """
    orders = np.array(list(itertools.permutations(range(tokens))))
    x = waves(tokens, 3, 2, 4, phase=1.0)

    def f(x: Float[Array, "B T 3 N H"]) -> np.ndarray:
        q, k, v = (x[:, :, n] for n in range(3))
        if base is not None:
            q, k = (rotated(y, base, np.arange(tokens)) for y in (q, k))
        return np.asarray(attend(q, k, v, Mask() if causal else unmasked(tokens))[0])

    return float(np.abs(f(x[orders]) - f(x[None])[0][orders]).max())


def position_error(tokens: int) -> float:
    """max |1/o_t - t| for the output o of causal attention without positions, whose values are 1 at the first token and 0 else.

    All scores are 0, so that o_t = 1/t (Kazemnejad et al. 2023, arXiv:2305.19466, Theorem 1).
    """
    zero = jnp.zeros((1, tokens, 1, 2))
    out = np.asarray(attend(zero, zero, zero.at[:, 0].set(1.0))[0], np.float64)[0, :, 0, 0]
    return float(np.abs(1 / out - np.arange(1, tokens + 1)).max())


def moved(head_dim: int, base: float, shift: int) -> float:
    """The largest change of q·k, |q| = |k| = 1, over all pairs of PAIRS positions when both move by `shift` tokens."""

    def scores(first: int) -> np.ndarray:
        q, k = (jnp.tile(unit(head_dim, phase), (1, PAIRS, 1, 1)) for phase in (1.0, 2.0))
        q, k = (rotated(x, base, first + np.arange(PAIRS))[:, :, 0] for x in (q, k))
        return products(q, k, 1.0)

    return float(np.abs(scores(shift) - scores(0)).max())


def norm_change(head_dim: int, base: float) -> float:
    """The largest change of the length of a vector of length 1 at DISTANCES positions."""
    x = jnp.tile(unit(head_dim, 1.0), (1, DISTANCES, 1, 1))
    return float(np.abs(np.linalg.norm(np.asarray(rotated(x, base, np.arange(DISTANCES)), np.float64), axis=-1) - 1).max())


def away_from_cosines(head_dim: int, base: float) -> float:
    """max over distances m of |q·k / d - (2/d) Σ_i cos(m θ_i)| for queries and keys of ones: the similarity B_m of a base."""
    ones = jnp.ones((1, DISTANCES, 1, head_dim))
    q = rotated(ones, base, np.arange(DISTANCES))[:, :, 0]
    scores = products(q, jnp.ones((1, 1, head_dim)), 1 / head_dim)[0, :, 0]
    return float(np.abs(scores - 2 / head_dim * similarity_sums(inverse_frequencies(head_dim, base), DISTANCES)).max())
