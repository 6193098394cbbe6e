"""Expectation maximisation for a unigram model of pieces, on the lattices of all words at once.

The nodes of all words are numbered by their position in the word first. So what happens at one position of every word is one
operation on arrays, and a pass takes as many of these as the longest word has characters.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import digamma

# likelihood: p = c / sum of c, which maximises the expected likelihood. digamma: log p = ψ(c) - ψ(sum of c), the mean of log p
# under a Dirichlet distribution of which the prior has no weight; it takes about half an occurrence from every piece, so rare
# ones lose. sentencepiece does the latter.
Maximisation = Literal["likelihood", "digamma"]


@dataclass(frozen=True)
class Lattices:
    """The lattices of several words. Arcs ascend by the node at which they end.

    Attributes:
        begin: the node at which an arc begins.
        end: the node at which it ends.
        piece: the index of its piece.
        levels: the first node of each position, and behind them the number of nodes.
        ends: the last node of every word.
    """

    begin: Int64[np.ndarray, "A"]
    end: Int64[np.ndarray, "A"]
    piece: Int64[np.ndarray, "A"]
    levels: Int64[np.ndarray, "P"]
    ends: Int64[np.ndarray, "W"]

    def keep(self, kept: Bool[np.ndarray, "V"]) -> "Lattices":
        """The same without the arcs of pieces that are not kept; the others are counted anew."""
        arcs = kept[self.piece]
        numbers = np.cumsum(kept) - 1
        return Lattices(self.begin[arcs], self.end[arcs], numbers[self.piece[arcs]], self.levels, self.ends)


def lattices(words: Sequence[str], pieces: Mapping[str, int], longest: int) -> Lattices:
    """The lattices of the words.

    Args:
        words: none of them empty, the longest first.
        pieces: the index of every piece; all single characters of the words are among them.
        longest: characters of the longest piece.
    """
    lengths = np.array([len(word) for word in words], np.int64)
    reaching = np.searchsorted(-lengths, -np.arange(max(lengths, default=0) + 1), side="right")  # words, for each position
    levels = np.concatenate([np.zeros(1, np.int64), np.cumsum(reaching)])
    found = array("q")
    for row, word in enumerate(words):
        for end in range(1, len(word) + 1):
            for start in range(max(0, end - longest), end):
                if (piece := pieces.get(word[start:end])) is not None:
                    found.extend((row, start, end, piece))
    row, start, end, piece = np.array(found, np.int64).reshape(-1, 4).T
    begins, ends = levels[start] + row, levels[end] + row
    order = np.argsort(ends, kind="stable")
    return Lattices(begins[order], ends[order], piece[order], levels, levels[lengths] + np.arange(len(words)))


def log_sums(arcs: Lattices, scores: Float64[np.ndarray, "A"]) -> Float64[np.ndarray, "nodes"]:
    """For each node, the log of the sum of the probabilities of all ways to it; `scores` are those of the arcs."""
    found = np.zeros(arcs.levels[-1])
    firsts = np.searchsorted(arcs.end, np.arange(arcs.levels[-1] + 1))
    for low, high in zip(arcs.levels[1:-1], arcs.levels[2:], strict=True):
        here = slice(firsts[low], firsts[high])
        starts = firsts[low:high] - firsts[low]
        ways = found[arcs.begin[here]] + scores[here]
        most = np.maximum.reduceat(ways, starts)
        found[low:high] = most + np.log(np.add.reduceat(np.exp(ways - most[arcs.end[here] - low]), starts))
    return found


def expectation(
    arcs: Lattices, weights: Float64[np.ndarray, "W"], scores: Float64[np.ndarray, "V"]
) -> tuple[Float64[np.ndarray, "V"], float]:
    """The E step: how often each piece is expected among all segmentations of all words, and the log-likelihood in nats.

    Args:
        arcs: the lattices of the words.
        weights: how often each word occurs.
        scores: the log probability of every piece.
    """
    of_arcs = scores[arcs.piece]
    sums = log_sums(arcs, of_arcs)
    shares = np.exp(sums[arcs.begin] + of_arcs - sums[arcs.end])  # of an arc among the ways to the node at which it ends
    visits = np.zeros(arcs.levels[-1])
    visits[arcs.ends] = weights
    used = np.zeros(len(shares))
    firsts = np.searchsorted(arcs.end, arcs.levels)
    for low, high in zip(firsts[1:-1][::-1], firsts[2:][::-1], strict=True):
        here = slice(low, high)
        used[here] = visits[arcs.end[here]] * shares[here]
        visits[arcs.begin[here]] += used[here]  # arcs that end at one position of a word begin at different ones
    return np.bincount(arcs.piece, used, len(scores)), float(weights @ sums[arcs.ends])


def maximisation(
    counts: Float64[np.ndarray, "V"], kind: Maximisation, least: Float64[np.ndarray, "V"] | float = 1e-300
) -> Float64[np.ndarray, "V"]:
    """The M step: the log probabilities of pieces that are expected so often.

    `least` is what a piece counts for at least. The default only keeps the log of nothing finite.
    """
    counts = np.maximum(counts, least)
    return np.log(counts) - np.log(counts.sum()) if kind == "likelihood" else digamma(counts) - digamma(counts.sum())


def removal_losses(
    own: Lattices, counts: Float64[np.ndarray, "V"], scores: Float64[np.ndarray, "V"]
) -> Float64[np.ndarray, "W"]:
    """How much log-likelihood, in nats, goes with each of the last W pieces: c (s - log Z).

    c is its expected count, s its score and Z the sum of the probabilities of all other ways to spell it. What the M step
    regains afterwards is not counted.

    Args:
        own: the lattices of these pieces as words, in their order.
        counts: the expected count of every piece.
        scores: the log probability of every piece.
    """
    first = len(scores) - len(own.ends)
    itself = (own.begin < own.levels[1]) & (own.piece == first + own.begin)
    rest = log_sums(own, np.where(itself, -np.inf, scores[own.piece]))[own.ends]
    return counts[first:] * (scores[first:] - rest)
