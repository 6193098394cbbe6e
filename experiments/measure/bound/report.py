"""The exact bound of the RoPE base for one context, beside published bases, as `leadline bound` prints it."""

import math
from collections.abc import Callable
from typing import Any

from leadline.experiments.measure.bound.published import published_at
from leadline.experiments.measure.bound.search import negative_distances, search, start
from leadline.model.base_bound.bound import bound_of
from leadline.model.positions.frequencies import inverse_frequencies


def bound_report(
    head_dim: int, length: int, *, inclusive: bool = False, every: int = 1, tell: Callable[[int], object] | None = None
) -> dict[str, Any]:
    """The bound and the published bases of one head dim and context length, as JSON types.

    Args:
        head_dim: channels that RoPE rotates.
        length: of the context [tokens].
        inclusive: whether the length itself is one of the tested distances m < length.
        every: only every n-th distance is tested: 0, every, 2 · every, …
        tell: is called with the number of tokens searched so far.

    Returns:
        `infimum` and `largest_infeasible` are None if no base is feasible (head dim 2 from length 3 on). `islands` are the
        intervals [low, high] of feasible bases below `largest_infeasible`. `published` gives, by source, each base that is
        printed for exactly this head dim and length: whether it is feasible, the first m with B_m < 0 below the length or
        None, the number of such m, and the smallest B_m.

    Raises:
        UserError: for an odd head dim, or a length or an `every` below 1.
    """
    bound = bound_of(search(start(head_dim, length, every), length, inclusive, tell))
    published = {
        table.source: _verdict(table.bases[length], head_dim, length + inclusive, every)
        for table in published_at(head_dim, length)
    }
    return {
        "head_dim": head_dim,
        "length": length,
        "infimum": bound.infimum if math.isfinite(bound.infimum) else None,
        "largest_infeasible": bound.largest_infeasible if math.isfinite(bound.largest_infeasible) else None,
        "islands": [list(island) for island in bound.islands],
        "published": published,
        "inclusive": inclusive,
        "every": every,
    }


def _verdict(base: float, head_dim: int, length: int, every: int) -> dict[str, Any]:
    result = negative_distances(inverse_frequencies(head_dim, base), length, every=every)
    feasible = result.violations == 0
    return {
        "value": base,
        "feasible": feasible,
        "first_violation": None if feasible else result.first,
        "violations": result.violations,
        "minimum": result.smallest,
    }
