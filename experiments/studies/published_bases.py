"""Published lower bounds of the RoPE base by context length, for head dim 128; "1k" is taken as 1024 tokens."""

from collections.abc import Mapping
from typing import NamedTuple


class PublishedBases(NamedTuple):
    """A printed table: where it is from, and its bases by length in tokens."""

    source: str
    bases: Mapping[int, float]


HEAD_DIM = 128

# Read from the full text. Its text says "from 1,000 to one million", its table 4 is reproduced only with 1k = 1024.
MEN = PublishedBases(
    "Men et al. 2024, arXiv:2405.14591, Table 2",
    {
        1 * 1024: 4.3e3,
        2 * 1024: 1.6e4,
        4 * 1024: 2.7e4,
        8 * 1024: 8.4e4,
        16 * 1024: 3.1e5,
        32 * 1024: 6.4e5,
        64 * 1024: 2.1e6,
        128 * 1024: 7.8e6,
        256 * 1024: 3.6e7,
        512 * 1024: 6.4e7,
        1024 * 1024: 5.1e8,
    },
)

SU = PublishedBases(
    "Su, kexue.fm/archives/10122",
    {
        1 * 1024: 4.3e3,
        2 * 1024: 1.2e4,
        4 * 1024: 2.7e4,
        8 * 1024: 8.4e4,
        16 * 1024: 2.3e5,
        32 * 1024: 6.3e5,
        64 * 1024: 2.1e6,
        128 * 1024: 4.9e6,
        256 * 1024: 2.4e7,
        512 * 1024: 5.8e7,
        1024 * 1024: 6.5e7,
    },
)

# Goes round without a source. No one procedure gives all five: 8k and 32k are the paper's, 1M is Su's.
BLOG = PublishedBases(
    "blog table of unknown origin",
    {4 * 1024: 4.5e4, 8 * 1024: 8.4e4, 32 * 1024: 6.4e5, 128 * 1024: 3.4e6, 1024 * 1024: 6.5e7},
)

PUBLISHED = (MEN, SU, BLOG)
