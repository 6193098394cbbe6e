"""Published RoPE bases by context length: printed lower bounds, and the bases of released models.

"1k" is taken as 1024 tokens.
"""

from collections.abc import Mapping
from typing import NamedTuple


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

# Read from the full text. Its text says "from 1,000 to one million"; its Table 4 is reproduced only with 1k = 1024.
MEN = PublishedBases(
    "men2024",
    "Men et al. 2024, arXiv:2405.14591, Table 2",
    HEAD_DIM,
    {
        1 * K: 4.3e3,
        2 * K: 1.6e4,
        4 * K: 2.7e4,
        8 * K: 8.4e4,
        16 * K: 3.1e5,
        32 * K: 6.4e5,
        64 * K: 2.1e6,
        128 * K: 7.8e6,
        256 * K: 3.6e7,
        512 * K: 6.4e7,
        1024 * K: 5.1e8,
    },
)

SU = PublishedBases(
    "su2024",
    "Su 2024, kexue.fm/archives/10122",
    HEAD_DIM,
    {
        1 * K: 4.3e3,
        2 * K: 1.2e4,
        4 * K: 2.7e4,
        8 * K: 8.4e4,
        16 * K: 2.3e5,
        32 * K: 6.3e5,
        64 * K: 2.1e6,
        128 * K: 4.9e6,
        256 * K: 2.4e7,
        512 * K: 5.8e7,
        1024 * K: 6.5e7,
    },
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
