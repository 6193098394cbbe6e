"""Answers to questions of retrieval: which are right, and by depth, size and distance how many.

An answer is right if every one of its tokens is the argmax of the logits, given the right ones before it. That is what greedy
decoding of the whole answer gives: the first wrong token ends the agreement, and up to it the prefixes are the same.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, Integer
from scipy import stats

UNITS: Mapping[str, str] = {
    "accuracy": "share of answers",
    "accuracy_first": "share of answers",
    "accuracy_middle": "share of answers",
    "accuracy_last": "share of answers",
    "accuracy_by_depth": "share of answers",
    "accuracy_by_size": "share of answers",
    "accuracy_by_distance": "share of tokens",
    "token_accuracy": "share of tokens",
    "token_accuracy_by_depth": "share of tokens",
    "count": "answers",
    "count_by_depth": "answers",
    "count_by_size": "answers",
    "count_by_distance": "tokens",
    "token_count_by_depth": "tokens",
}


def hits(logits: Float[Array, "B T V"], tokens: Int[Array, "B T+1"]) -> Bool[Array, "B T"]:
    """Where the next token has the largest logit, the lowest id of several that share it."""
    return jnp.argmax(logits, axis=-1) == tokens[:, 1:]


def right_answers(hit: Bool[Array | np.ndarray, "*C B T"], weights: Float[Array | np.ndarray, "*C B T"]) -> Bool[Array, "*C B"]:
    """The rows all of whose targets (weight above 0) are hit."""
    return jnp.all(hit | (weights <= 0), axis=-1)


def depths(evidence: Int[np.ndarray, "B T"]) -> Float64[np.ndarray, "B T"]:
    """Depth of what each target is read from, evidence / T: near 0 the beginning, near 1 the end. NaN where there is none."""
    return np.where(evidence >= 0, evidence / evidence.shape[1], np.nan)


def distances(evidence: Int[np.ndarray, "B T"]) -> Float64[np.ndarray, "B T"]:
    """Tokens from each query back to what its target is read from, t - evidence. NaN where there is none."""
    return np.where(evidence >= 0, np.arange(evidence.shape[1]) - evidence, np.nan)


def by_bin(
    right: Bool[np.ndarray, "*N"], place: Float64[np.ndarray, "*N"], edges: Float64[np.ndarray, "E"]
) -> tuple[Float64[np.ndarray, "E-1"], Integer[np.ndarray, "E-1"]]:
    """Share that is right, and count, in the bins edges[i] <= place < edges[i + 1], the last one with its end.

    What has no place (NaN), or one outside, is not counted; the share of an empty bin is NaN.
    """
    counts = np.histogram(place[np.isfinite(place)], edges)[0]
    hit = np.histogram(place[np.isfinite(place) & right], edges)[0]
    return np.divide(hit, counts, out=np.full(len(counts), np.nan), where=counts > 0), counts


def grid_edges(points: int) -> Float64[np.ndarray, "{points}+1"]:
    """Edges of the bins around the points of a grid from 0 to 1, each in a bin of its own.

    Raises ValueError for fewer than two points.
    """
    if points < 2:
        raise ValueError(f"a grid of {points} points has no steps; 2 or more are needed")
    return (np.arange(points + 1) - 0.5) / (points - 1)


def wilson(
    right: Float64[np.ndarray, "*N"] | Integer[np.ndarray, "*N"], count: Integer[np.ndarray, "*N"], confidence: float = 0.95
) -> tuple[Float64[np.ndarray, "*N"], Float64[np.ndarray, "*N"]]:
    """The score interval of a proportion (Wilson 1927): the p with |right/n - p| <= z sqrt(p (1 - p) / n).

    Both ends are (p̂ + z²/2n ± z sqrt(p̂ (1 - p̂)/n + z²/4n²)) / (1 + z²/n); NaN where nothing was counted. It stays within
    [0, 1] and says something of 0 and n right answers, unlike p̂ ± z s. The answers are taken as independent: those of one
    model are, given the model; its seed's own spread is not in it.
    """
    z = float(stats.norm.ppf((1 + confidence) / 2))
    n = np.where(count > 0, count, np.nan)
    share = right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
