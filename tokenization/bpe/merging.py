"""Applying the merges of byte pair encoding to one word."""

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise


def apply_merges(
    symbols: Sequence[int],
    rank_of: Callable[[tuple[int, int]], tuple[int, int] | None],
    drop: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Merges neighbours until no merge applies: always the one of least rank, of equal ranks the leftmost.

    O(n log n) for n symbols by a heap of candidate pairs, since a word may be a whole file.

    Args:
        symbols: The ids of the word's symbols, not negative.
        rank_of: Maps a pair of neighbours to the rank of its merge and the id of the result, or to None.
        drop: Called before each merge. True skips this merge until another one has been made (BPE-dropout).

    Returns:
        The ids after all merges.
    """
    n = len(symbols)
    symbols, sizes = list(symbols), [1] * n  # a symbol is stored at its start, its size at both of its ends
    candidates = [merge[0] * n + at for at, pair in enumerate(pairwise(symbols)) if (merge := rank_of(pair))]
    heapq.heapify(candidates)
    dropped: list[int] = []
    while candidates:
        rank, at = divmod(heapq.heappop(candidates), n)
        behind = at + sizes[at]
        if symbols[at] < 0 or behind >= n:
            continue
        merge = rank_of((symbols[at], symbols[behind]))
        if merge is None or merge[0] != rank:  # one of the two has been merged since
            continue
        if drop():
            dropped.append(rank * n + at)
            continue
        symbols[at], symbols[behind] = merge[1], -1
        size = sizes[at] + sizes[behind]
        sizes[at] = sizes[at + size - 1] = size
        for start in (at - sizes[at - 1], at) if at else (at,):
            end = start + sizes[start]
            if end < n and (merge := rank_of((symbols[start], symbols[end]))):
                heapq.heappush(candidates, merge[0] * n + start)
        while dropped:
            heapq.heappush(candidates, dropped.pop())
    return [symbol for symbol in symbols if symbol >= 0]
