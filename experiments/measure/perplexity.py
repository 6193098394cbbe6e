"""Perplexity by each protocol: which targets count, and which mean it is the exponential of.

An evaluation is [W, T]: the loss [nats] of each of T targets in W windows, and whether it counts. In windows that do not
overlap every target counts; with a stride S the last S of each window, with at least T - S tokens of context.

    protocol    perplexity
    (absent)    exp(Σ loss / number of tokens): that of the corpus
    sliding     that of the corpus, over the second half of every window: a window that slides by half of its length (Press et
                al. 2022 slide by other lengths), of whose places a sample is measured
    documents   exp of the mean of the documents' means: a token of a short document weighs more
    last        that of the corpus, over the last positions of every window only, where the context is longest

The exponential of the mean of the windows' means (jquesnelle/yarn) is that of the corpus, since all
windows have equally many targets.

Losses are float32 on the device; all means but `mean_loss` are float64 on the host.

Text is a random effect: with at least ENOUGH_DOCUMENTS documents every perplexity is measured again without each group of them
(leadline.experiments.records.left_out).
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from leadline.experiments.data.text.held_out import GROUPS, HeldOut
from leadline.experiments.records.left_out import with_left_out
from leadline.experiments.records.measurement import Dim, Point, Reading, reading, scalars

Losses = Float[np.ndarray, "W T"]


def mean_loss(
    losses: Float[Array, "*C B T"], weights: Bool[Array, "*C B T"] | Float[Array, "*C B T"] | None = None
) -> Float[Array, ""]:
    """Mean loss [nats] over all targets, over those chosen, or weighted; inside a compiled program."""
    if weights is None:
        return jnp.mean(losses)
    weights = weights.astype(losses.dtype)
    return jnp.sum(losses * weights) / jnp.sum(weights)


def perplexities(losses: Losses, text: HeldOut, last: int, **dims: Dim) -> Point:
    """The perplexity of a text by every protocol at these dimensions, whole and without each group of documents.

    Args:
        losses: [nats] of every target of the text.
        text: which targets count, and the document of each.
        last: positions of the protocol "last".
        **dims: of the readings, besides `protocol` and `last`.
    """
    counted, groups = text.counted, text.groups
    places = np.arange(counted.shape[1])
    half, late = counted & (places >= len(places) // 2), counted & (places >= len(places) - last)
    # Of each document the targets in all windows; of one that is cut off, the part inside.
    _, first, document = np.unique(text.documents[counted], return_index=True, return_inverse=True)
    of_documents = np.bincount(document, weights=losses[counted].astype(np.float64)) / np.bincount(document)
    # What the mean of each protocol is over, and the group of each.
    means: dict[Reading, tuple[np.ndarray, np.ndarray]] = {
        reading("perplexity", **dims): (losses[counted], groups[counted]),
        reading("perplexity", protocol="sliding", **dims): (losses[half], groups[half]),
        reading("perplexity", protocol="documents", **dims): (of_documents, groups[counted][first]),
        reading("perplexity", protocol="last", last=last, **dims): (losses[late], groups[late]),
    }
    point: Point = {}
    for key, (values, of_values) in means.items():
        point |= with_left_out(key, exponential(means_without(values, of_values)), enough=text.enough_documents)
    return point


def means_without(values: Float[np.ndarray, "n *rest"], groups: Int[np.ndarray, "n"]) -> Float[np.ndarray, "G_and_1 *rest"]:
    """The mean of all values, then the mean without each of the GROUPS groups, float64; NaN where nothing is left."""
    sums = np.zeros((GROUPS, *values.shape[1:]))
    np.add.at(sums, groups, values)
    left = len(values) - np.bincount(groups, minlength=GROUPS).reshape(-1, *[1] * (values.ndim - 1))
    return np.concatenate([values.mean(axis=0, dtype=np.float64)[None], bin_means(sums.sum(axis=0) - sums, left)])


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
    return np.add.reduceat(np.mean(losses, axis=0, dtype=np.float64), edges[:-1]) / np.diff(edges)


def exponential(loss: np.ndarray | np.floating | float) -> np.ndarray:
    """The perplexities of mean losses [nats], float64; infinite where they overflow."""
    with np.errstate(over="ignore"):  # a model that broke down has no finite perplexity
        return np.asarray(np.exp(np.asarray(loss, np.float64)))


def sums_by_place_without(
    values: Shaped[np.ndarray, "n"], places: Int[np.ndarray, "n"], edges: Int[np.ndarray, " E"], groups: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "G_and_1 E-1"]:
    """The sum of the values of each bin of places, of all groups of documents, then without each, float64.

    Args:
        values: one of each place.
        places: each in a bin.
        edges: bin i holds places edges[i] <= place < edges[i + 1].
        groups: of each place.
    """
    bins = len(edges) - 1
    cells = groups * bins + np.searchsorted(edges, places, side="right") - 1
    of_groups = np.bincount(cells, values, GROUPS * bins).reshape(GROUPS, bins)
    whole = of_groups.sum(axis=0)
    return np.concatenate([whole[None], whole - of_groups])


def bin_means(
    sums: Shaped[np.ndarray, "bins *rest"], counts: Shaped[np.ndarray, "bins *#rest"]
) -> Float[np.ndarray, "bins *rest"]:
    """Sums over counts, such as of hits over answers; NaN where there is nothing to count."""
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def mean_of_stream(
    sums: Float[np.ndarray, "n B"], counts: Float[np.ndarray, "n B"], sizes: Float[np.ndarray, "n B"]
) -> Float[np.ndarray, "n"]:
    """The mean loss [nats] of each of n streams, of which each of B bins is sampled.

    Args:
        sums: of the losses of each sample.
        counts: how many losses each sample has. Bins without any are left out.
        sizes: of the bins in the whole stream, by which their means are weighted.
    """
    sampled = counts > 0
    of_bins = np.where(sampled, bin_means(sums, counts) * sizes, 0.0)
    return bin_means(of_bins.sum(axis=-1), np.where(sampled, sizes, 0.0).sum(axis=-1))
