"""Published RoPE bases by context length: printed lower bounds, and the bases of released models.

"1k" is taken as 1024 tokens.

Men et al. 2024 (arXiv:2405.14591) count in their Table 4 at how many distances two sets of frequencies of head dim 128 have
B_m < 0. The first set is that of base 5e6. The second slows the 20 slow pairs of base 1e4 down by 8 and replaces the 44 fast
ones by a geometric sequence that meets them: its base is 1e4 · 8^(128/88). The heading of the counts is "B_m >= 0", but they
are those of B_m < 0, among the distances up to and including 15 · 1024 and 30 · 1024.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from leadline.model.positions.frequencies import inverse_frequencies


class PublishedBases(NamedTuple):
    """Bases of one source.

    Attributes:
        key: how records name it (the dimension `published`).
        source: for readers.
        head_dim: channels that RoPE rotates.
        bases: by context length in tokens.
    """

    key: str
    source: str
    head_dim: int
    bases: Mapping[int, float]


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


class Count(NamedTuple):
    """A count that Men et al. print in Table 4: of which frequencies, and up to which distance."""

    frequencies: Frequencies
    distance: int
    printed: int


MEN_TABLE_4 = (
    Count("base_5e6", 15 * 1024, 0),
    Count("base_5e6", 30 * 1024, 0),
    Count("slowed_by_8", 15 * 1024, 97),
    Count("slowed_by_8", 30 * 1024, 2554),
)


def frequencies(name: Frequencies) -> Float64[np.ndarray, " pairs"]:
    """ω of one set of frequencies [pairs], radians per token."""
    if name == "base_5e6":
        return inverse_frequencies(HEAD_DIM, 5e6)
    fast = inverse_frequencies(HEAD_DIM, 1e4 * 8 ** (HEAD_DIM / (2 * FAST_PAIRS)))
    slow = inverse_frequencies(HEAD_DIM, 1e4) / 8
    return np.concatenate([fast[:FAST_PAIRS], slow[FAST_PAIRS:]])
