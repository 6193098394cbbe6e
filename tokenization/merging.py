"""Applying the merges of byte pair encoding to one piece."""

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise


def merge(
    symbols: Sequence[int],
    rank_of: Callable[[tuple[int, int]], tuple[int, int] | None],
    drop: Callable[[], bool] = lambda: False,
) -> list[int]:
    """The symbols after all merges: always the one of the least rank, of equal ranks the one furthest left.

    The work grows as n log n with the number n of symbols, since one piece may be a whole file.

    Args:
        symbols: ids, from 0 on.
        rank_of: for two neighbours the rank of their merge and the id that it makes, None where there is none.
        drop: asked before each merge whether it is left out until another one is made.
    """
    n = len(symbols)
    symbols, sizes = list(symbols), [1] * n  # a symbol is kept where it begins, its size where it begins and where it ends
    waiting = [found[0] * n + at for at, pair in enumerate(pairwise(symbols)) if (found := rank_of(pair))]
    heapq.heapify(waiting)
    dropped: list[int] = []
    while waiting:
        rank, at = divmod(heapq.heappop(waiting), n)
        behind = at + sizes[at]
        if symbols[at] < 0 or behind >= n:
            continue
        found = rank_of((symbols[at], symbols[behind]))
        if found is None or found[0] != rank:  # one of the two has been merged since
            continue
        if drop():
            dropped.append(rank * n + at)
            continue
        symbols[at], symbols[behind] = found[1], -1
        size = sizes[at] + sizes[behind]
        sizes[at] = sizes[at + size - 1] = size
        for start in (at - sizes[at - 1], at) if at else (at,):
            end = start + sizes[start]
            if end < n and (found := rank_of((symbols[start], symbols[end]))):
                heapq.heappush(waiting, found[0] * n + start)
        while dropped:
            heapq.heappush(waiting, dropped.pop())
    return [symbol for symbol in symbols if symbol >= 0]
