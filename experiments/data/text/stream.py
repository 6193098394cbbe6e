"""Windows that re-compute a sample of the tokens of a stream, from every part of it."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Int32


@dataclass(frozen=True)
class Recomputed:
    """W windows of T inputs of a stream; row[:-1] predicts row[1:]."""

    windows: Int32[np.ndarray, "W T_and_1"]
    places: Int[np.ndarray, "W T"]  # where in the stream each input stands
    counted: Bool[np.ndarray, "W T"]  # targets that count: all of the first window, the last `stride` of every other window


def recomputed_windows(
    text: Int32[np.ndarray, "tokens"],
    edges: Int[np.ndarray, " E"],
    length: int,
    stride: int,
    most: int,
    *,
    keep_first: bool,
) -> Recomputed:
    """The first window of a stream, and windows that end evenly spaced in each bin edges[i] <= place < edges[i + 1].

    Args:
        text: the stream, and its last target.
        edges: of bins of places; the last one is the number of inputs.
        length: T, tokens of a window.
        stride: targets of a window that count.
        most: targets of a bin that count, at most; but always those of one window.
        keep_first: whether every window begins with the first token of the stream, as a BOS in training.
    """
    ends = [length]
    for low, high in itertools.pairwise(edges):
        # The segments of `stride` tokens that begin in the bin: the last of them may reach into the next one.
        fitting = np.arange(-(-max(int(low), length) // stride), min(-(-int(high) // stride), int(edges[-1]) // stride))
        chosen = np.unique(np.linspace(0, len(fitting) - 1, min(len(fitting), max(1, most // stride))).round().astype(int))
        ends += [int(end) for end in (fitting[chosen] + 1) * stride]
    begins = np.array(ends)[:, None] - length
    windows = text[begins + np.arange(length + 1)]
    if keep_first:
        windows[:, 0] = text[0]
    counted = np.broadcast_to(np.arange(length) >= length - stride, (len(ends), length)).copy()
    counted[0] = True
    return Recomputed(windows, begins + np.arange(length), counted)


def mean_by_place(
    losses: Float[np.ndarray, "n"], places: Int[np.ndarray, "n"], edges: Int[np.ndarray, " E"]
) -> Float[np.ndarray, " E-1"]:
    """The mean loss [nats] of each bin of places, float64; NaN where there is none."""
    bins = np.searchsorted(edges, places, side="right") - 1
    sums, counts = (np.bincount(bins, weights, len(edges) - 1) for weights in (losses.astype(np.float64), None))
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def mean_of_stream(edges: Int[np.ndarray, " E"], means: Float[np.ndarray, " E-1"]) -> float:
    """The mean loss [nats] of a stream, from the means of samples of its bins, weighted by the sizes of the bins."""
    measured = np.isfinite(means)
    return float(np.average(means[measured], weights=np.diff(edges)[measured]))
