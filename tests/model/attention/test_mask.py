"""Which tiles are seen, against a look at every score, and how texts are cut into chunks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.attention.mask import Mask, Tiling, chunks_of, tiles_seeing, tiles_seen

FARTHEST = 2**31 - 1
WIDTHS = st.integers(1, 40) | st.just(FARTHEST)
SIGHTS = {"window": WIDTHS, "initial_tokens": st.integers(0, 60), "chunk": WIDTHS}


def visible(i: Any, j: Any, window: int, initial_tokens: int, chunk: int) -> np.ndarray:
    distance, same_chunk = i[:, None] - j[None, :], (i // chunk)[:, None] == (j // chunk)[None, :]
    return (distance >= 0) & (((distance < window) & same_chunk) | (j < initial_tokens)[None])


def numbers(*values: int) -> list[jax.Array]:
    return [jnp.int32(value) for value in values]


@given(start=st.integers(0, 50), rows=st.integers(1, 20), size=st.integers(1, 12), **SIGHTS)
def test_rows_go_through_each_tile_that_they_see_once(
    start: int, rows: int, size: int, window: int, initial_tokens: int, chunk: int
) -> None:
    first, sight = jnp.int32(start), Mask(*numbers(window, initial_tokens), chunk=jnp.int32(chunk))
    count, whole, at = tiles_seen(first, rows, size, sight)
    places = [int(at(jnp.int32(n))) for n in range(int(count))]
    assert len(set(places)) == len(places)
    rule, queries = (window, initial_tokens, chunk), start + np.arange(rows)
    looks = {j: visible(queries, j + np.arange(size), *rule) for j in range(0, start + rows, size)}
    assert {j for j, look in looks.items() if look.any()} <= set(places)
    assert all(looks[j].all() for j in places[int(whole[0]) : int(whole[1])])
    if initial_tokens == 0:  # of initial tokens, whole tiles are looked at score by score
        assert int(whole[1]) - int(whole[0]) == sum(look.all() for look in looks.values())


@given(
    key=st.integers(0, 60),
    keys=st.integers(1, 12),
    tiles=st.integers(1, 6),
    size=st.integers(1, 12),
    first=st.integers(0, 30),
    **SIGHTS,
)
def test_keys_go_through_the_tiles_of_rows_that_see_them(
    key: int, keys: int, tiles: int, size: int, first: int, window: int, initial_tokens: int, chunk: int
) -> None:
    mask = Mask(*numbers(window, initial_tokens, first), chunk=jnp.int32(chunk))
    ranges = tiles_seeing(jnp.int32(key), keys, size, tiles * size, mask)
    (start, stop), whole = (tuple(int(n) for n in pair) for pair in ranges)
    rule, of_tile = (window, initial_tokens, chunk), key + np.arange(keys)
    looks = [visible(first + n * size + np.arange(size), of_tile, *rule) for n in range(tiles)]
    assert {n for n, look in enumerate(looks) if look.any()} <= set(range(start, stop))
    assert {n for n, look in enumerate(looks) if look.all()} <= set(range(*whole)) or initial_tokens > 0
    assert all(looks[n].all() for n in range(*whole))


@pytest.mark.parametrize(("tokens", "first"), [(48, 48), (256, 64), (512, 128), (2048, 256)])
def test_short_texts_are_cut_into_smaller_chunks(tokens: int, first: int) -> None:
    chunks = list(chunks_of(tokens, Tiling()))
    assert chunks[0] == (0, first)
    assert chunks[-1][1] == tokens
