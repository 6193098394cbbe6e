"""Answers to questions of retrieval: which are right, and how many by depth, size and distance.

An answer is right if each of its tokens has the largest logit, given the right tokens before it. Greedy decoding of the whole
answer gives the same verdict: up to the first wrong token the prefixes are equal.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int, Integer


def hits(logits: Float[Array, "B T V"], targets: Int[Array, "B T"]) -> Bool[Array, "B T"]:
    """Whether each target has the largest logit; of equal logits the lowest id wins."""
    return jnp.argmax(logits, axis=-1) == targets


def right_answers(hit: Bool[Array | np.ndarray, "R T"], weights: Float[Array | np.ndarray, "R T"]) -> Bool[Array, " R"]:
    """The rows in which every target with a weight above 0 is hit."""
    return jnp.all(hit | (weights <= 0), axis=-1)


def depths(evidence: Int[np.ndarray, "R T"]) -> Float64[np.ndarray, "R T"]:
    """Depth of the evidence of each target, evidence / T: 0 at the beginning, near 1 at the end. NaN without evidence."""
    return np.where(evidence >= 0, evidence / evidence.shape[1], np.nan)


def distances(evidence: Int[np.ndarray, "R T"]) -> Float64[np.ndarray, "R T"]:
    """Tokens from each query back to the evidence of its target, t - evidence. NaN without evidence."""
    return np.where(evidence >= 0, np.arange(evidence.shape[1]) - evidence, np.nan)


def by_bin(
    right: Bool[np.ndarray, "*N"], place: Float64[np.ndarray, "*N"], edges: Float64[np.ndarray, "E"]
) -> tuple[Float64[np.ndarray, "E-1"], Integer[np.ndarray, "E-1"]]:
    """Share that is right, and count, in the bins edges[i] <= place < edges[i + 1]; the last bin includes its upper edge.

    Places that are NaN or outside are not counted. The share of an empty bin is NaN.
    """
    counts = np.histogram(place[np.isfinite(place)], edges)[0]
    hit = np.histogram(place[np.isfinite(place) & right], edges)[0]
    return np.divide(hit, counts, out=np.full(len(counts), np.nan), where=counts > 0), counts


def grid_edges(points: int) -> Float64[np.ndarray, "{points}+1"]:
    """Edges of the bins around the points of an even grid from 0 to 1, one point in each.

    Raises:
        ValueError: for fewer than two points.
    """
    if points < 2:
        raise ValueError(f"a grid of {points} points has no steps; 2 or more are needed")
    return (np.arange(points + 1) - 0.5) / (points - 1)
