"""How long the rows of an embedding are, beside positions and in logits, at the start of a training."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leadline.experiments.measure.exact.embedding_training import (
    SEED,
    Unembedding,
    drawn_weights,
    mean_loss,
    plain_model,
)
from leadline.model.embedding import embed, logits
from leadline.model.norm import init_norm, normalise
from leadline.model.positions.absolute import sinusoidal
from leadline.model.positions.frequencies import inverse_frequencies

BASE = 10000.0  # of sinusoidal positions (Vaswani et al. 2017, section 3.5)
TEXT = 256  # tokens of the text whose loss is measured
SHARE = 0.999  # of the squared length that counted directions hold


def initial_tables(vocabulary: int, width: int) -> dict[str, Any]:
    """Embeddings by how they are drawn.

    "N(0, 1/d)" is that of models here, cut at three standard deviations; "N(0, 0.02²)" that of GPT-2; "U(±1/√d)" that of
    torch.nn.Linear with d inputs; "N(0, 1)" that of torch.nn.Embedding.

    Returns:
        Tables [V, D].
    """
    normal, uniform = jax.random.split(jax.random.key(SEED))
    numbers = jax.random.normal(normal, (vocabulary, width))
    bound = width**-0.5
    return {
        "N(0, 1/d)": drawn_weights(width, vocabulary, "own", 1).unembedding,
        "N(0, 0.02²)": 0.02 * numbers,
        "U(±1/√d)": jax.random.uniform(uniform, (vocabulary, width), minval=-bound, maxval=bound),
        "N(0, 1)": numbers,
    }


def mean_norm(rows: Float[Array, "V D"]) -> float:
    """The mean length of a row."""
    return float(np.linalg.norm(np.asarray(rows, np.float64), axis=-1).mean())


def logit_deviation(table: Float[Array, "V D"]) -> float:
    """The standard deviation of logits x · tableᵀ of normal vectors x that an RMSNorm has brought to length √D."""
    x = jax.random.normal(jax.random.key(SEED + 1), (1, TEXT, table.shape[1]))
    return float(np.asarray(logits(normalise(init_norm(table.shape[1], bias=False), x), table), np.float64).std())


def loss_excess(table: Float[Array, "V D"], unembedding: Unembedding) -> float:
    """The loss of a model on ids that are drawn evenly, before its first step, less ln V [nats].

    Args:
        table: the embedding where it is tied, else the unembedding alone.
        unembedding: whether it is tied.
    """
    vocabulary, width = table.shape
    p = drawn_weights(width, vocabulary, unembedding, TEXT)
    p = dataclasses.replace(p, **{"embedding" if unembedding == "tied" else "unembedding": table})
    ids = jax.random.randint(jax.random.key(SEED + 2), (TEXT + 1,), 0, vocabulary)
    return float(mean_loss(p, ids, plain_model(width, unembedding), vocabulary)) - math.log(vocabulary)


def embedded_norm(table: Float[Array, "V D"], *, scaled: bool) -> float:
    """The mean length of what the first layer gets of a token."""
    return mean_norm(embed(table, jnp.arange(len(table))[None], scaled=scaled)[0])


def away_from_rotation(width: int, positions: int, shift: int) -> float:
    """max |s(t + k) - M_k s(t)| over positions t, where M_k rotates the pair i of sine and cosine by k ω_i, for all t alike."""
    t = np.arange(positions)
    pairs, moved = (
        np.asarray(sinusoidal(jnp.asarray(at), width), np.float64).reshape(positions, -1, 2) for at in (t, t + shift)
    )
    angle = shift * inverse_frequencies(width, BASE)
    sine, cosine = pairs[..., 0], pairs[..., 1]
    rotated = np.stack([sine * np.cos(angle) + cosine * np.sin(angle), cosine * np.cos(angle) - sine * np.sin(angle)], axis=-1)
    return float(np.abs(rotated - moved).max())


def wavelengths(width: int) -> Float[np.ndarray, "{width//2}"]:
    """The tokens of one period of each pair of sine and cosine: 2π · 10000^(2i/width) for the pair i."""
    return 2 * np.pi / np.asarray(inverse_frequencies(width, BASE), np.float64)


def directions(rows: Float[Array, "T D"]) -> int:
    """The fewest orthogonal directions that hold SHARE of the squared length of all rows."""
    squares = np.linalg.svd(np.asarray(rows, np.float64), compute_uv=False) ** 2
    return int(np.searchsorted(np.cumsum(squares) / squares.sum(), SHARE)) + 1


def mean_cosine(a: Float[Array, "V D"], b: Float[Array, "T D"]) -> float:
    """The mean of |cos| over all pairs of a row of each."""
    unit_a, unit_b = (rows / np.linalg.norm(rows, axis=-1, keepdims=True) for rows in map(np.asarray, (a, b)))
    return float(np.abs(unit_a @ unit_b.T).mean())
