"""The rules by which the library `tokenizers` trains a unigram model, on our lattices and our expectation maximization.

They differ from those of `leadline.tokenization.unigram.training` in the pieces to begin with, in the loss of a removal, and in
what else goes: after every iteration the pieces that are expected less than half a time, and in the end, of a tenth more pieces
than asked for, those whose removal cost least.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from leadline.tokenization.unigram.em import expectation, lattices, maximization
from leadline.tokenization.unigram.lattice import Pieces, lattice, n_best, viterbi

LONGEST = 16
SPECIALS = 1  # UNK, which the library counts among the pieces


def seeds(counts: Mapping[str, int]) -> dict[str, float]:
    """Characters by their count, and longer pieces by length times the number of places in distinct words.

    They are the inner nodes of a suffix tree: in two places other characters follow, or one of them ends a word.
    """
    characters, places, followers = Counter[str](), Counter[str](), defaultdict[str, set[str]](set)
    for word, count in counts.items():
        for start, character in enumerate(word):
            characters[character] += count
            for end in range(start + 2, min(len(word), start + LONGEST) + 1):
                places[word[start:end]] += 1
                followers[word[start:end]].add(word[end : end + 1])
    return {**characters, **{piece: n * len(piece) for piece, n in places.items() if len(followers[piece]) > 1}}


def remaining(counts: Mapping[str, int], scores: Mapping[str, float], size: int) -> dict[str, float]:
    """The pieces of the greatest losses, after those that can be spelled in no other way.

    The frequency f of a piece is that in the best segmentations, and all of it goes to the pieces of its own second best
    segmentation. In the logarithm of the new sum the library counts all V pieces where those of that segmentation are meant.
    """
    pieces = Pieces({piece: (i, score) for i, (piece, score) in enumerate(scores.items())}, LONGEST, (-1, -1e3))
    f = np.zeros(len(scores))
    for word, count in counts.items():
        for arc in viterbi(word, pieces):
            f[arc.token] += count
    losses: dict[str, float] = {}
    for i, piece in enumerate(scores):
        two = n_best(lattice([piece], pieces), 2)
        if len(two) == 1:
            losses[piece] = np.inf
        elif f[i]:
            others = [arc.token for arc in two[1][0]]
            spelled = np.sum(np.log(f[others] + f[i]) - np.log(f.sum() + f[i] * len(scores)))
            losses[piece] = f[i] * (np.log(f[i] / f.sum()) - spelled)
    return {piece: scores[piece] for piece in sorted(losses, key=losses.__getitem__, reverse=True)[:size]}


def trained(counts: Mapping[str, int], size: int) -> dict[str, float]:
    """The score of each of `size` pieces, of texts whose characters are all expected at least half a time."""
    words: Sequence[str] = sorted(counts, key=lambda word: (-len(word), word))
    weights = np.array([counts[word] for word in words], np.float64)
    first = seeds(counts)
    scores = dict(zip(first, maximization(np.array([*first.values()], np.float64), "likelihood").tolist(), strict=True))
    largest = (size + SPECIALS) * 11 // 10 - SPECIALS
    while True:
        for _ in range(2):
            arcs = lattices(words, {piece: i for i, piece in enumerate(scores)}, LONGEST)
            expected, _ = expectation(arcs, weights, np.array([*scores.values()]))
            kept = expected >= 0.5
            names = [piece for piece, stays in zip(scores, kept, strict=True) if stays]
            scores = dict(zip(names, maximization(expected[kept], "digamma").tolist(), strict=True))
        if len(scores) <= largest:
            order = sorted(scores, key=lambda piece: len(piece) > 1)
            return {piece: scores[piece] for piece in order[:size]}
        share = int(0.75 * (len(scores) + SPECIALS)) - SPECIALS
        scores = remaining(counts, scores, max(largest, share))
