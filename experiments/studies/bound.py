"""Which RoPE bases suffice for a context: the exact bound, beside what has been published."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from experiments.cores import process_pool
from experiments.errors import UserError
from experiments.studies.published_bases import HEAD_DIM, PUBLISHED
from model.positions.base_bound import (
    FeasibleBases,
    all_bases,
    bound_of,
    first_violation,
    geometric_frequencies,
    joined,
    parts,
    restricted,
    restrictions,
    similarity_sums,
)

Tell = Callable[[int], None]
# From this length on the bases are searched in so many pieces for so many tokens at a time, a process a core: below it, a
# search takes no longer than the processes to start.
FAR, PIECES, STAGE = 2**17, 16, 2**17


def bound_report(
    head_dim: int, length: int, *, inclusive: bool = False, every: int = 1, tell: Tell | None = None
) -> dict[str, Any]:
    """The bound and the published values of one head dim and context length [tokens], of types that JSON knows.

    Tested are the distances m = 0, every, 2 every, ... with m < length, or m <= length if `inclusive`; `tell` hears how
    many tokens are behind, again and again. `infimum` and `largest_infeasible` are null where no base at all is
    feasible (head dim 2 from length 3 on); `islands` are pairs (low, high) below the ray of feasible bases that starts
    at `largest_infeasible`. `published` gives each printed value of exactly this head dim and length its verdict over
    the same distances: the first m with B_m < 0 (or null), how many there are, and the smallest B_m.
    UserError for an odd head dim, a length < 1 or an `every` < 1.
    """
    bases = start(head_dim, length, every)
    for further in searched(bases, length + inclusive):
        bases = further
        if tell is not None:
            tell(min(bases.length, length))
    return report_of(bases, length, inclusive=inclusive)


def start(head_dim: int, length: int, every: int) -> FeasibleBases:
    """Where a search begins. UserError for what cannot be searched."""
    if head_dim < 2 or head_dim % 2:
        raise UserError(f"head dim must be even and at least 2, not {head_dim}: RoPE turns pairs of channels")
    if length < 1:
        raise UserError(f"length must be at least 1 token, not {length}")
    if every < 1:
        raise UserError(f"every must be at least 1, which tests every distance, not {every}")
    return all_bases(head_dim, every=every)


def searched(bases: FeasibleBases, length: int) -> Iterator[FeasibleBases]:
    """The bases that are feasible for more and more tokens up to `length`; on all cores from FAR on."""
    for further in restrictions(bases, min(length, FAR)):
        bases = further
        yield bases
    if length <= FAR:
        return
    with process_pool() as pool:
        while bases.length < length:
            further = min(bases.length + STAGE, length)
            pieces = parts(bases, further, PIECES)
            bases = joined(list(pool.map(restricted, pieces, [further] * len(pieces))))
            yield bases


def report_of(bases: FeasibleBases, length: int, *, inclusive: bool) -> dict[str, Any]:
    """`bound_report` of a search that has come to its length."""
    head_dim, every = bases.head_dim, bases.every
    bound = bound_of(bases)
    tables = [table for table in PUBLISHED if head_dim == HEAD_DIM and length in table.bases]
    return {
        "head_dim": head_dim,
        "length": length,
        "infimum": _finite(bound.infimum),
        "largest_infeasible": _finite(bound.largest_infeasible),
        "islands": [list(island) for island in bound.islands],
        "published": {table.source: _verdict(table.bases[length], head_dim, length + inclusive, every) for table in tables},
        "inclusive": inclusive,
        "every": every,
    }


def _finite(base: float) -> float | None:
    return base if math.isfinite(base) else None


def _verdict(base: float, head_dim: int, length: int, every: int) -> dict[str, Any]:
    found = first_violation(base, head_dim, length, every=every)
    sums = similarity_sums(every * geometric_frequencies(base, head_dim), -(-length // every))
    return {
        "value": base,
        "feasible": found is None,
        "first_violation": None if found is None else found.first,
        "violations": 0 if found is None else found.number,
        "minimum": float(sums.min()),
    }
