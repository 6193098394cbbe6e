"""Perplexity with its conventions in the open: which tokens count, and what is averaged.

A study's evaluation is [W, T]: the loss [nats] of each of T targets in W windows, and whether it counts. Windows that do not
overlap count every target; sliding windows with stride S count all T of the first window and the last S of each later one, so
that every token counts once, with at least T - S tokens of context. Published perplexities differ in the mean they take the
exponential of:

    tokens      exp(Σ loss / number of tokens): the perplexity of the corpus, and the default here
    windows     exp of the mean of the windows' means (jquesnelle/yarn, the snippet of Hugging Face's documentation): with
                sliding windows a token of the first one weighs S/T of any other
    documents   exp of the mean of the documents' means: a token of a short document weighs more

On the device losses are float32; everything below, `mean_loss` apart, is float64 on the host.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

Losses = Float[np.ndarray, "W T"]
Counted = Bool[np.ndarray, "W T"]


def mean_loss(
    losses: Float[Array, "*C B T"], weights: Bool[Array, "*C B T"] | Float[Array, "*C B T"] | None = None
) -> Float[Array, ""]:
    """Token-weighted mean loss [nats] over all positions, over those chosen, or weighted; inside a compiled program."""
    if weights is None:
        return jnp.mean(losses)
    weights = weights.astype(losses.dtype)
    return jnp.sum(losses * weights) / jnp.sum(weights)


def token_perplexity(losses: Losses, counted: Counted) -> float:
    """exp of the mean over all tokens that count."""
    return exponential(np.mean(losses[counted], dtype=np.float64))


def window_perplexity(losses: Losses, counted: Counted) -> float:
    """exp of the mean over windows of the mean over the tokens of each that count."""
    sums = np.sum(np.where(counted, losses, 0), axis=1, dtype=np.float64)
    return exponential(np.mean(sums / np.sum(counted, axis=1)))


def document_perplexity(losses: Losses, counted: Counted, documents: Int[np.ndarray, "W T"]) -> float:
    """exp of the mean over documents of the mean over the tokens of each that count, in whichever windows they lie.

    `documents` numbers the document of every target. A document that the evaluation cuts off counts with the part inside.
    """
    _, own = np.unique(documents[counted], return_inverse=True)
    sums = np.bincount(own, weights=losses[counted].astype(np.float64))
    return exponential(np.mean(sums / np.bincount(own)))


def last_perplexity(losses: Losses, counted: Counted, last: int) -> float:
    """Token-weighted, of those of the last positions of every window that count.

    There the context is longest: whole windows hide a failure there. ValueError for more positions than there are.
    """
    if not 1 <= last <= losses.shape[1]:
        raise ValueError(f"the last {last} positions of a window of {losses.shape[1]}: measure between 1 and all of them")
    return token_perplexity(losses[:, -last:], counted[:, -last:])


def perplexities(losses: Losses, counted: Counted, documents: Int[np.ndarray, "W T"], last: int, way: str) -> dict[str, float]:
    """All of the above under the names of a record; `way` says of what, as in "none.128"."""
    return {
        f"perplexity.{way}": token_perplexity(losses, counted),
        f"perplexity_windows.{way}": window_perplexity(losses, counted),
        f"perplexity_documents.{way}": document_perplexity(losses, counted, documents),
        f"perplexity_last{last}.{way}": last_perplexity(losses, counted, last),
    }


def position_edges(length: int) -> Int[np.ndarray, " E"]:
    """Edges of bins of positions: half-octaves 0, 1, 2, 3, 4, 6, 8, 11, 16 … up to and with `length`.

    Bin i holds positions edges[i] <= p < edges[i + 1]; windows of any length share their bins, but for the last one.
    """
    octaves = np.arange(2 * int(np.ceil(np.log2(length))) + 1) / 2
    edges = np.unique(np.rint(2.0**octaves).astype(np.int64))
    return np.concatenate([[0], edges[edges < length], [length]])


def loss_by_position(losses: Losses, edges: Int[np.ndarray, " E"]) -> Float[np.ndarray, " E-1"]:
    """Mean loss [nats] of each bin of positions over all windows: position p has p tokens and itself to go by.

    All targets take part, those too that sliding windows have counted before: the question is the context, not the text.
    """
    means = np.mean(losses, axis=0, dtype=np.float64)
    return np.add.reduceat(means, edges[:-1]) / np.diff(edges)


def exponential(loss: np.floating | float) -> float:
    """The perplexity of a mean loss [nats], float64; infinite where it overflows."""
    with np.errstate(over="ignore"):  # a model that broke down has no finite perplexity
        return float(np.exp(loss))
