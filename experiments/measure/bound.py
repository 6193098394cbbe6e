"""The exact bound of the RoPE base for a context, searched on all cores where that pays, and published bases by context length:
printed lower bounds, and the bases of released models.

"1k" is taken as 1024 tokens.

Men et al. 2024 (arXiv:2405.14591) count in their Table 4 at how many distances two sets of frequencies of head dim 128 have
B_m < 0. The first set is that of base 5e6. The second slows the 20 slow pairs of base 1e4 down by 8 and replaces the 44 fast
ones by a geometric sequence that meets them: its base is 1e4 · 8^(128/88). The heading of the counts is "B_m >= 0", but they
are those of B_m < 0, among the distances up to and including 15 · 1024 and 30 · 1024.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from leadline.experiments.runtime.cpu import process_pool
from leadline.experiments.runtime.errors import UserError
from leadline.model.base_bound.bound import FeasibleBases, all_bases, bound_of, joined, parts, restricted, restrictions
from leadline.model.base_bound.sums import similarity_sums, violations
from leadline.model.positions.frequencies import inverse_frequencies


class PublishedBases(NamedTuple):
    """Bases of one source."""

    key: str  # how records name it (the dimension `published`)
    source: str  # for readers
    head_dim: int  # channels that RoPE rotates
    bases: Mapping[int, float]  # by context length in tokens


K = 1024
HEAD_DIM = 128


def by_octave(*bases: float) -> dict[int, float]:
    """Bases for 1k tokens, 2k, 4k, …"""
    return {K << octave: base for octave, base in enumerate(bases)}


# Read from the full text. Its text says "from 1,000 to one million"; its Table 4 is reproduced only with 1k = 1024.
MEN = PublishedBases(
    "men2024",
    "Men et al. 2024, arXiv:2405.14591, Table 2",
    HEAD_DIM,
    by_octave(4.3e3, 1.6e4, 2.7e4, 8.4e4, 3.1e5, 6.4e5, 2.1e6, 7.8e6, 3.6e7, 6.4e7, 5.1e8),
)
SU = PublishedBases(
    "su2024",
    "Su 2024, kexue.fm/archives/10122",
    HEAD_DIM,
    by_octave(4.3e3, 1.2e4, 2.7e4, 8.4e4, 2.3e5, 6.3e5, 2.1e6, 4.9e6, 2.4e7, 5.8e7, 6.5e7),
)
# Repeated without a source. No one procedure gives all five: 8k and 32k are the paper's, 1M is Su's.
BLOG = PublishedBases(
    "blog",
    "blog table of unknown origin",
    HEAD_DIM,
    {4 * K: 4.5e4, 8 * K: 8.4e4, 32 * K: 6.4e5, 128 * K: 3.4e6, 1024 * K: 6.5e7},
)

# The base of each model at the context that it was trained with at that base, before YaRN or another scaling extends it.
RELEASED = (
    PublishedBases("llama2", "Llama 2, config.json: default base, max_position_embeddings 4096", 128, {4 * K: 1e4}),
    PublishedBases("codellama", "Code Llama, arXiv:2308.12950, section 2.3: base 1e6, 16,384 tokens", 128, {16 * K: 1e6}),
    PublishedBases("llama3", "Llama 3 8B, config.json: rope_theta 5e5, 8192 positions", 128, {8 * K: 5e5}),
    PublishedBases("mixtral", "Mixtral 8x7B, config.json: rope_theta 1e6, 32,768 positions", 128, {32 * K: 1e6}),
    PublishedBases("qwen2.5", "Qwen2.5, arXiv:2412.15115, section 3.3: base 1e6, 32,768 tokens", 128, {32 * K: 1e6}),
    PublishedBases("gpt_oss", "gpt-oss, config.json: rope_theta 1.5e5, initial_context_length 4096", 64, {4 * K: 1.5e5}),
    PublishedBases("smollm2", "SmolLM2-135M, config.json: rope_theta 1e5, 8192 positions", 64, {8 * K: 1e5}),
    PublishedBases("gemma2", "Gemma 2 9B, config.json: rope_theta 1e4, 8192 positions", 256, {8 * K: 1e4}),
    PublishedBases("gemma3", "Gemma 3, arXiv:2503.19786, section 2: global base 1e6, 32K tokens", 256, {32 * K: 1e6}),
)

PUBLISHED = (MEN, SU, BLOG, *RELEASED)


def published_at(head_dim: int, length: int) -> list[PublishedBases]:
    """The sources that print a base for exactly this head dim and context length."""
    return [table for table in PUBLISHED if table.head_dim == head_dim and length in table.bases]


Frequencies = Literal["base_5e6", "slowed_by_8"]
FAST_PAIRS = 44


# The counts that Men et al. print in Table 4, by the set of frequencies and the last distance.
MEN_TABLE_4: Mapping[tuple[Frequencies, int], int] = {
    ("base_5e6", 15 * 1024): 0,
    ("base_5e6", 30 * 1024): 0,
    ("slowed_by_8", 15 * 1024): 97,
    ("slowed_by_8", 30 * 1024): 2554,
}


def frequencies(name: Frequencies) -> Float64[np.ndarray, " pairs"]:
    """ω of one set of frequencies [pairs], radians per token."""
    if name == "base_5e6":
        return inverse_frequencies(HEAD_DIM, 5e6)
    fast = inverse_frequencies(HEAD_DIM, 1e4 * 8 ** (HEAD_DIM / (2 * FAST_PAIRS)))
    slow = inverse_frequencies(HEAD_DIM, 1e4) / 8
    return np.concatenate([fast[:FAST_PAIRS], slow[FAST_PAIRS:]])


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


def search(
    bases: FeasibleBases, length: int, inclusive: bool = False, tell: Callable[[int], object] = lambda _: None
) -> FeasibleBases:
    """The bases that are feasible for `length` tokens; with `inclusive` at the distance `length` too.

    `tell` is called with the number of tokens searched so far.
    """
    end = length + inclusive
    for further in restrictions(bases, min(end, FAR)):
        bases = further
        tell(min(bases.length, length))
    if end > max(FAR, bases.length):
        with process_pool() as pool:
            while bases.length < end:
                stage = min(bases.length + STAGE, end)
                pieces = parts(bases, stage, PIECES)
                bases = joined(list(pool.map(restricted, pieces, [stage] * len(pieces))))
                tell(min(bases.length, length))
    return bases


class NegativeDistances(NamedTuple):
    """B_m of some frequencies at the distances of a context."""

    violations: int  # the number of distances below the context with B_m < 0
    first: int | None  # the first distance with B_m < 0, even beyond the context; None if none lies below BEYOND contexts
    smallest: float  # the smallest B_m below the context

    def numbers(self) -> dict[str, int | float | None]:
        """By quantity."""
        return {"violations": self.violations, "first_violation": self.first, "smallest_similarity": self.smallest}


def negative_distances(frequencies: Float64[np.ndarray, " pairs"], length: int, *, every: int = 1) -> NegativeDistances:
    """Counts the distances m = 0, every, 2 · every, … below `length` at which B_m < 0."""
    below = violations(frequencies, length, every=every)
    if below is not None:
        return NegativeDistances(below.number, below.first, below.minimum)
    beyond = violations(frequencies, BEYOND * length, every=every)
    smallest = float(similarity_sums(every * frequencies, -(-length // every)).min())
    return NegativeDistances(0, beyond.first if beyond else None, smallest)


def bound_report(
    head_dim: int, length: int, *, inclusive: bool = False, every: int = 1, tell: Callable[[int], object] = lambda _: None
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
    published = {}
    for table in published_at(head_dim, length):
        base = table.bases[length]
        tested = negative_distances(inverse_frequencies(head_dim, base), length + inclusive, every=every)
        published[table.source] = {
            "value": base,
            "feasible": tested.violations == 0,
            "first_violation": tested.first if tested.violations else None,
            "violations": tested.violations,
            "minimum": tested.smallest,
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
