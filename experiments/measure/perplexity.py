"""Perplexity by each protocol: which targets count, and which mean it is the exponential of.

An evaluation is [W, T]: the loss [nats] of each of T targets in W windows, and whether it counts. In windows that do not
overlap every target counts; with a stride S the last S of each window, with at least T - S tokens of context.

    protocol    perplexity
    (absent)    exp(Σ loss / number of tokens): that of the corpus
    windows     exp of the mean of the windows' means (jquesnelle/yarn, the snippet in Hugging Face's documentation)
    documents   exp of the mean of the documents' means: a token of a short document weighs more
    last        that of the corpus, over the last positions of every window only, where the context is longest

Losses are float32 on the device; all means but `mean_loss` are float64 on the host.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from leadline.experiments.data.text.held_out import HeldOut
from leadline.experiments.records.measurement import Dim, Point, reading, scalars

Losses = Float[np.ndarray, "W T"]
Counted = Bool[np.ndarray, "W T"]


def mean_loss(
    losses: Float[Array, "*C B T"], weights: Bool[Array, "*C B T"] | Float[Array, "*C B T"] | None = None
) -> Float[Array, ""]:
    """Mean loss [nats] over all targets, over those chosen, or weighted; inside a compiled program."""
    if weights is None:
        return jnp.mean(losses)
    weights = weights.astype(losses.dtype)
    return jnp.sum(losses * weights) / jnp.sum(weights)


def token_perplexity(losses: Losses, counted: Counted) -> float:
    """exp of the mean over all targets that count."""
    return exponential(np.mean(losses[counted], dtype=np.float64))


def last_perplexity(losses: Losses, counted: Counted, last: int) -> float:
    """exp of the mean over the targets that count among the last positions of every window.

    Raises:
        ValueError: for more positions than there are.
    """
    if not 1 <= last <= losses.shape[1]:
        raise ValueError(f"the last {last} positions of a window of {losses.shape[1]}: measure between 1 and all of them")
    return token_perplexity(losses[:, -last:], counted[:, -last:])


def perplexities(losses: Losses, text: HeldOut, last: int, **dims: Dim) -> Point:
    """The perplexity of a text by every protocol, with the loss and the document of each window, at these dimensions.

    Args:
        losses: [nats] of every target of the text.
        text: which targets count, and the document of each.
        last: positions of the protocol "last".
        **dims: of the readings, besides `protocol` and `last`.
    """
    counted = text.counted
    of_windows = np.sum(np.where(counted, losses, 0), axis=1, dtype=np.float64) / np.sum(counted, axis=1)
    # Of each document the targets in all windows; of one that is cut off, the part inside.
    _, document = np.unique(text.documents[counted], return_inverse=True)
    of_documents = np.bincount(document, weights=losses[counted].astype(np.float64)) / np.bincount(document)
    values = {
        reading("perplexity", **dims): token_perplexity(losses, counted),
        reading("perplexity", protocol="windows", **dims): exponential(np.mean(of_windows)),
        reading("perplexity", protocol="documents", **dims): exponential(np.mean(of_documents)),
        reading("perplexity", protocol="last", last=last, **dims): last_perplexity(losses, counted, last),
    }
    first = np.argmax(counted, axis=1)  # the first target that counts
    of_window = {
        reading("window_loss", **dims): of_windows,
        reading("window_document", **dims): text.documents[np.arange(len(counted)), first],
    }
    return {key: np.asarray(value) for key, value in values.items()} | of_window


def evaluated(text: HeldOut, **dims: Dim) -> Point:
    """How much text an evaluation is of: its `windows` and `documents`."""
    return scalars({"windows": float(len(text.windows)), "documents": float(text.document_count)}, **dims)


def position_edges(length: int) -> Int[np.ndarray, " E"]:
    """Edges of bins of positions: half-octaves 0, 1, 2, 3, 4, 6, 8, 11, 16 … up to and with `length`.

    Bin i holds positions edges[i] <= p < edges[i + 1]; windows of any length share their bins, but for the last one.
    """
    octaves = np.arange(2 * int(np.ceil(np.log2(length))) + 1) / 2
    edges = np.unique(np.rint(2.0**octaves).astype(np.int64))
    return np.concatenate([[0], edges[edges < length], [length]])


def loss_by_position(losses: Losses, edges: Int[np.ndarray, " E"]) -> Float[np.ndarray, " E-1"]:
    """Mean loss [nats] of each bin of positions over all windows. Position p has a context of p + 1 tokens.

    Targets that do not count in sliding windows take part too: positions tell contexts apart, not text.
    """
    return mean_by_place(np.asarray(np.mean(losses, axis=0, dtype=np.float64)), np.arange(losses.shape[1]), edges)


def exponential(loss: np.floating | float) -> float:
    """The perplexity of a mean loss [nats], float64; infinite where it overflows."""
    with np.errstate(over="ignore"):  # a model that broke down has no finite perplexity
        return float(np.exp(loss))


def mean_by_place(
    losses: Float[np.ndarray, "n"], places: Int[np.ndarray, "n"], edges: Int[np.ndarray, " E"]
) -> Float[np.ndarray, " E-1"]:
    """The mean loss [nats] of each bin of places, float64; NaN where there is none."""
    bins = np.searchsorted(edges, places, side="right") - 1
    sums, counts = (np.bincount(bins, weights, len(edges) - 1) for weights in (losses.astype(np.float64), None))
    return bin_means(sums, counts)


def bin_means(sums: Shaped[np.ndarray, "bins"], counts: Shaped[np.ndarray, "bins"]) -> Float[np.ndarray, "bins"]:
    """Sums over counts, such as of hits over answers; NaN where there is nothing to count."""
    return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def mean_of_stream(edges: Int[np.ndarray, " E"], means: Float[np.ndarray, " E-1"]) -> float:
    """The mean loss [nats] of a stream, from the means of samples of its bins, weighted by the sizes of the bins."""
    measured = np.isfinite(means)
    return float(np.average(means[measured], weights=np.diff(edges)[measured]))
