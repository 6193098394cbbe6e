"""A keyed permutation that is computed, not stored: an item costs the same in a corpus of any size."""

import math

import numpy as np
from jaxtyping import Int64, Integer, UInt64

# A Feistel network of random functions is a pseudorandom permutation from four rounds on (Luby and Rackoff 1988); tiny
# domains mix more slowly, and a round costs a batch about ten microseconds.
ROUNDS = 8


def mix(values: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection in which each input bit flips half of the output.

    Arithmetic is modulo 2^64, as that of NumPy's uint64 arrays.
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def keyed(seed: int, counter: Integer[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """A 64-bit key for each pair of seed and counter: mix(mix(seed) + counter), with the seed taken modulo 2^64.

    The seed is mixed first so that (1, 2) and (2, 1) have different keys.
    """
    start = mix(np.full(counter.shape, seed % 2**64, np.uint64))
    return mix(start + counter.astype(np.uint64))


def permute(index: Integer[np.ndarray, "items"], n: int, key: UInt64[np.ndarray, "#items"]) -> Int64[np.ndarray, "items"]:
    """Where a permutation of range(n), chosen by the key, sends each index.

    A Feistel network over pairs (a, b) in range(A) x range(B), A = ceil(sqrt(n)), B = ceil(n / A), with rounds
        a <- a + f_k(b) mod A   and   b <- b + f_k(a) mod B   in turn,
    is a bijection of range(A B) whatever f is. A value at or past n is sent through it again until it lands inside
    (cycle walking), which keeps the bijection and is rare, because A B < n + A. Both are from Black and Rogaway, "Ciphers
    with Arbitrary Finite Domains" (2002). Each item may have its own key, as at the end of an epoch.

    Raises:
        ValueError: when n is not positive or an index is not in range(n).
    """
    if n < 1:
        raise ValueError(f"a permutation needs at least one item, not {n}")
    if index.size and (index.min() < 0 or index.max() >= n):
        raise ValueError(f"indices from {index.min()} to {index.max()} are not all in range({n})")
    side = math.isqrt(n - 1) + 1
    sides = (side, -(-n // side))
    round_keys = mix(np.broadcast_to(key, index.shape) + np.arange(ROUNDS, dtype=np.uint64)[:, None])
    values = _feistel(index.astype(np.uint64), round_keys, sides)
    while (outside := np.flatnonzero(values >= n)).size:
        values[outside] = _feistel(values[outside], round_keys[:, outside], sides)
    return values.astype(np.int64)


def _feistel(
    values: UInt64[np.ndarray, "items"], round_keys: UInt64[np.ndarray, "rounds items"], sides: tuple[int, int]
) -> UInt64[np.ndarray, "items"]:
    size, other_size = (np.uint64(side) for side in sides)
    half, other = np.divmod(values, size)[::-1]
    for round_key in round_keys:
        # The remainder first, so that the sum cannot wrap around.
        half = (half + mix(other ^ round_key) % size) % size
        half, other, size, other_size = other, half, other_size, size
    # The number of rounds is even: both halves are in their places again.
    return other * size + half
