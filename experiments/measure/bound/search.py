"""The search for feasible RoPE bases, on all cores where that pays, and the test of one base."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from leadline.experiments.runtime.cpu import process_pool
from leadline.experiments.runtime.errors import UserError
from leadline.model.base_bound.bound import (
    FeasibleBases,
    all_bases,
    joined,
    parts,
    restricted,
    restrictions,
)
from leadline.model.base_bound.sums import similarity_sums, violations

# From this length on, the bases are searched in PIECES pieces for STAGE more tokens at a time, a process a core. Below it a
# search takes no longer than starting the processes.
FAR, PIECES, STAGE = 2**17, 16, 2**17
# The first violation of a feasible base is searched for below this multiple of the context.
BEYOND = 4


def start(head_dim: int, length: int, every: int) -> FeasibleBases:
    """Every base b >= 1: where a search begins.

    Raises:
        UserError: for an odd head dim, or a length or an `every` below 1.
    """
    if head_dim < 2 or head_dim % 2:
        raise UserError(f"head dim must be even and at least 2, not {head_dim}: RoPE rotates pairs of channels")
    if length < 1:
        raise UserError(f"length must be at least 1 token, not {length}")
    if every < 1:
        raise UserError(f"every must be at least 1, which tests every distance, not {every}")
    return all_bases(head_dim, every=every)


def searched(bases: FeasibleBases, length: int) -> Iterator[FeasibleBases]:
    """The bases that are feasible for more and more tokens, up to `length`; nothing if `bases` has come that far."""
    for further in restrictions(bases, min(length, FAR)):
        bases = further
        yield bases
    if length <= max(FAR, bases.length):
        return
    with process_pool() as pool:
        while bases.length < length:
            further = min(bases.length + STAGE, length)
            pieces = parts(bases, further, PIECES)
            bases = joined(list(pool.map(restricted, pieces, [further] * len(pieces))))
            yield bases


def search(bases: FeasibleBases, length: int, inclusive: bool, tell: Callable[[int], object] | None = None) -> FeasibleBases:
    """The bases that are feasible for `length` tokens; with `inclusive` at the distance `length` too.

    `tell` is called with the number of tokens searched so far.
    """
    for further in searched(bases, length + inclusive):
        bases = further
        if tell is not None:
            tell(min(bases.length, length))
    return bases


class NegativeDistances(NamedTuple):
    """B_m of some frequencies at the distances of a context.

    Attributes:
        violations: the number of distances below the context with B_m < 0.
        first: the first distance with B_m < 0, even if it lies beyond the context; None if none lies below BEYOND contexts.
        smallest: the smallest B_m below the context.
    """

    violations: int
    first: int | None
    smallest: float


def negative_distances(frequencies: Float64[np.ndarray, " pairs"], length: int, *, every: int = 1) -> NegativeDistances:
    """Counts the distances m = 0, every, 2 · every, … below `length` at which B_m < 0."""
    below = violations(frequencies, length, every=every)
    if below is not None:
        return NegativeDistances(below.number, below.first, below.minimum)
    beyond = violations(frequencies, BEYOND * length, every=every)
    smallest = float(similarity_sums(every * frequencies, -(-length // every)).min())
    return NegativeDistances(0, beyond.first if beyond else None, smallest)
