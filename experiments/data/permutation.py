"""A permutation that is computed, not stored: the place of one item costs the same in a corpus of any size."""

import numpy as np
from jaxtyping import Integer, UInt64

# Balanced Feistel networks with random round functions are pseudorandom permutations from four rounds on (Luby and
# Rackoff 1988). Tiny domains mix more slowly; eight rounds cost microseconds a batch.
ROUNDS = 8


def mix(values: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64 bits in which every bit flips half.

    Array arithmetic wraps around modulo 2^64, which is what the constants expect.
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def keyed(seed: int, counter: Integer[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """One 64-bit key for each pair of seed and counter; the seed is taken modulo 2^64."""
    key = np.array([seed % 2**64], np.uint64)
    return mix(mix(key).reshape((1,) * counter.ndim) ^ mix(counter.astype(np.uint64)))


def permute(
    index: Integer[np.ndarray, "items"],
    n: int,
    key: UInt64[np.ndarray, "#items"],
) -> Integer[np.ndarray, "items"]:
    """Where a permutation of range(n), chosen by the key, sends each index; int64.

    A Feistel network over the smallest even number of bits that holds n,
        (a, b) <- (b, a xor f_k(b)),
    is a bijection whatever f is. A value that falls at or past n is sent through it again until it lands inside (cycle
    walking: Black and Rogaway 2002), which keeps the bijection; the domain is below 4 n (4 for n = 1), so it takes
    four passes or fewer on average. Each item may have its own key, as at the end of an epoch.

    Raises ValueError when n is not positive or an index is not in range(n).
    """
    if n < 1:
        raise ValueError(f"a permutation needs at least one item, not {n}")
    if index.size and (index.min() < 0 or index.max() >= n):
        raise ValueError(f"indices from {index.min()} to {index.max()} are not all in range({n})")
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    keys = np.broadcast_to(key, index.shape)
    values = _feistel(index.astype(np.uint64), keys, half_bits)
    while (outside := np.flatnonzero(values >= n)).size:
        values[outside] = _feistel(values[outside], keys[outside], half_bits)
    return values.astype(np.int64)


def _feistel(
    values: UInt64[np.ndarray, "items"], keys: UInt64[np.ndarray, "items"], half_bits: int
) -> UInt64[np.ndarray, "items"]:
    shift, mask = np.uint64(half_bits), np.uint64(2**half_bits - 1)
    left, right = values >> shift, values & mask
    for turn in range(ROUNDS):
        round_keys = mix(keys + np.uint64(turn))
        left, right = right, left ^ (mix(right ^ round_keys) & mask)
    return (left << shift) | right
