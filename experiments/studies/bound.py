"""Which RoPE bases suffice for a context: the exact bound, beside what has been published."""

import math
from typing import Any

from experiments.errors import UserError
from experiments.studies.published_bases import HEAD_DIM, PUBLISHED
from model.positions.base_bound import base_bound, first_violation, geometric_frequencies, similarity_sums


def bound_report(head_dim: int, length: int) -> dict[str, Any]:
    """The bound and the published values of one head dim and context length [tokens], of types that JSON knows.

    `infimum` and `largest_infeasible` are null where no base at all is feasible (head dim 2 from length 3 on);
    `islands` are pairs (low, high) below the ray of feasible bases that starts at `largest_infeasible`. `published`
    gives each printed value of exactly this head dim and length its verdict over all distances: the first m with
    B_m < 0 (or null), how many there are, and the smallest B_m. UserError for an odd head dim or a length < 1.
    """
    if head_dim < 2 or head_dim % 2:
        raise UserError(f"head dim must be even and at least 2, not {head_dim}: RoPE turns pairs of channels")
    if length < 1:
        raise UserError(f"length must be at least 1 token, not {length}")
    bound = base_bound(head_dim, length)
    tables = [table for table in PUBLISHED if head_dim == HEAD_DIM and length in table.bases]
    return {
        "head_dim": head_dim,
        "length": length,
        "infimum": _finite(bound.infimum),
        "largest_infeasible": _finite(bound.largest_infeasible),
        "islands": [list(island) for island in bound.islands],
        "published": {table.source: _verdict(table.bases[length], head_dim, length) for table in tables},
    }


def _finite(base: float) -> float | None:
    return base if math.isfinite(base) else None


def _verdict(base: float, head_dim: int, length: int) -> dict[str, Any]:
    found = first_violation(base, head_dim, length)
    return {
        "value": base,
        "feasible": found is None,
        "first_violation": None if found is None else found.first,
        "violations": 0 if found is None else found.number,
        "minimum": float(similarity_sums(geometric_frequencies(base, head_dim), length).min()),
    }
