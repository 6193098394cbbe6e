"""Expectation maximization for a unigram model of pieces (Kudo 2018, arXiv:1804.10959), on the lattices of all words at once.

Nodes are numbered by their position in the word first. What happens at one position of every word is then one array operation,
and a pass takes as many operations as the longest word has characters.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import digamma

from leadline.tokenization.base import check_choice

# likelihood: p = c / Σc, which maximizes the expected likelihood. digamma: log p = ψ(c) − ψ(Σc), the mean of log p under a
# Dirichlet posterior whose prior has no weight. It takes about half an occurrence from every piece, so rare ones lose; this is
# what the sentencepiece library does.
Maximization = Literal["likelihood", "digamma"]


@dataclass(frozen=True)
class Lattices:
    """The lattices of several words. Arcs are in ascending order of the node at which they end.

    Attributes:
        begin: The node at which an arc begins.
        end: The node at which it ends.
        piece: The index of its piece.
        levels: The first node of each position, and after them the number of nodes.
        ends: The last node of every word.
    """

    begin: Int64[np.ndarray, "A"]
    end: Int64[np.ndarray, "A"]
    piece: Int64[np.ndarray, "A"]
    levels: Int64[np.ndarray, "P"]
    ends: Int64[np.ndarray, "W"]

    def restrict(self, kept: Bool[np.ndarray, "V"]) -> "Lattices":
        """Removes the arcs of pieces that are not kept, and renumbers the others."""
        arcs = kept[self.piece]
        numbers = np.cumsum(kept) - 1
        return Lattices(self.begin[arcs], self.end[arcs], numbers[self.piece[arcs]], self.levels, self.ends)


def lattices(words: Sequence[str], pieces: Mapping[str, int], longest: int) -> Lattices:
    """Builds the lattices of words.

    Args:
        words: The words, none empty, the longest first.
        pieces: The index of every piece. All single characters of the words are pieces.
        longest: The number of characters of the longest piece.
    """
    lengths = np.array([len(word) for word in words], np.int64)
    reaching = np.searchsorted(-lengths, -np.arange(max(lengths, default=0) + 1), side="right")  # words, for each position
    levels = np.concatenate([np.zeros(1, np.int64), np.cumsum(reaching)])
    arcs = array("q")
    for row, word in enumerate(words):
        for end in range(1, len(word) + 1):
            for start in range(max(0, end - longest), end):
                if (piece := pieces.get(word[start:end])) is not None:
                    arcs.extend((row, start, end, piece))
    row, start, end, piece = np.array(arcs, np.int64).reshape(-1, 4).T
    begins, ends = levels[start] + row, levels[end] + row
    order = np.argsort(ends, kind="stable")
    return Lattices(begins[order], ends[order], piece[order], levels, levels[lengths] + np.arange(len(words)))


def log_sums(arcs: Lattices, scores: Float64[np.ndarray, "A"]) -> Float64[np.ndarray, "nodes"]:
    """The log of the summed probability of all paths to each node (forward pass).

    Args:
        arcs: The lattices.
        scores: The log probability of each arc.
    """
    sums = np.zeros(arcs.levels[-1])
    firsts = np.searchsorted(arcs.end, np.arange(arcs.levels[-1] + 1))
    for low, high in zip(arcs.levels[1:-1], arcs.levels[2:], strict=True):
        ending = slice(firsts[low], firsts[high])
        starts = firsts[low:high] - firsts[low]
        paths = sums[arcs.begin[ending]] + scores[ending]
        most = np.maximum.reduceat(paths, starts)
        sums[low:high] = most + np.log(np.add.reduceat(np.exp(paths - most[arcs.end[ending] - low]), starts))
    return sums


def expectation(
    arcs: Lattices, weights: Float64[np.ndarray, "W"], scores: Float64[np.ndarray, "V"]
) -> tuple[Float64[np.ndarray, "V"], float]:
    """The E step: expected counts over all segmentations (forward-backward).

    Args:
        arcs: The lattices of the words.
        weights: How often each word occurs.
        scores: The log probability of every piece, in nats.

    Returns:
        The expected count of every piece, and the log likelihood of all words in nats.
    """
    arc_scores = scores[arcs.piece]
    sums = log_sums(arcs, arc_scores)
    shares = np.exp(sums[arcs.begin] + arc_scores - sums[arcs.end])  # of each arc among the paths to its end
    visits = np.zeros(arcs.levels[-1])
    visits[arcs.ends] = weights
    used = np.zeros(len(shares))
    firsts = np.searchsorted(arcs.end, arcs.levels)
    for low, high in zip(firsts[1:-1][::-1], firsts[2:][::-1], strict=True):
        ending = slice(low, high)
        used[ending] = visits[arcs.end[ending]] * shares[ending]
        visits[arcs.begin[ending]] += used[ending]  # arcs that end at one position of a word begin at different nodes
    return np.bincount(arcs.piece, used, len(scores)), float(weights @ sums[arcs.ends])


def maximization(
    counts: Float64[np.ndarray, "V"], kind: Maximization, least: Float64[np.ndarray, "V"] | float = 1e-300
) -> Float64[np.ndarray, "V"]:
    """The M step: the log probabilities of pieces.

    Args:
        counts: The expected count of every piece.
        kind: How counts become probabilities.
        least: The count of a piece is raised to this. The default only keeps the log of 0 finite.

    Returns:
        The log probability of every piece, in nats.

    Raises:
        ValueError: The kind is unknown.
    """
    check_choice("M step", kind, get_args(Maximization))
    counts = np.maximum(counts, least)
    return np.log(counts) - np.log(counts.sum()) if kind == "likelihood" else digamma(counts) - digamma(counts.sum())


def removal_losses(
    piece_lattices: Lattices, counts: Float64[np.ndarray, "V"], scores: Float64[np.ndarray, "V"]
) -> Float64[np.ndarray, "W"]:
    """The log likelihood, in nats, that is lost without each of the last W pieces: c (s − log Z).

    c is the piece's expected count, s its score, and Z the summed probability of all other segmentations of it. What the next
    M step regains is not counted.

    Args:
        piece_lattices: The lattices of these pieces as words, in their order.
        counts: The expected count of every piece.
        scores: The log probability of every piece, in nats.
    """
    first = len(scores) - len(piece_lattices.ends)
    whole = (piece_lattices.begin < piece_lattices.levels[1]) & (piece_lattices.piece == first + piece_lattices.begin)
    others = log_sums(piece_lattices, np.where(whole, -np.inf, scores[piece_lattices.piece]))[piece_lattices.ends]
    return counts[first:] * (scores[first:] - others)
