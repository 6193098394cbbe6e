"""Position encodings, windows and hyperparameters of all layers as traced values. Changing them never recompiles."""

from typing import no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from leadline.model.attention.hyperparameters import Hyperparameters, hyperparameters, same_rows
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.positions.angles import Frequencies, fixed_point


@no_type_check  # JAX also builds these trees of shapes and numpy arrays, so fields are not checked
@struct.dataclass
class PositionTables:
    """One row per layer. Every variant of RoPE, NoPE, xPos, ALiBi, a temperature and a window differ in these numbers only.

    `*T` is empty, or the positions of a text where the table depends on them (model.block, `table_per`).
    """

    frequencies: Frequencies  # [*L, *T, coordinates, pairs], rad per token; zeros are NoPE
    attention_factor: Float[Array, "*L pairs"]  # [*L, *T, pairs], multiplies cos and sin
    decay: Float[Array, "*L pairs"]  # xPos: ln ζ per token; zeros are none
    slopes: Float[Array, "*L N"]  # ALiBi; zeros are none
    temperature: Float[Array, "*L"]  # of queries, model.positions.rotation.query_scale; 0 is none
    temperature_span: Float[Array, "*L"]  # tokens
    window: Int[Array, "*L"]  # newest keys that a query sees, itself included
    initial_tokens: Int[Array, "*L"]  # first keys that it sees besides
    chunk: Int[Array, "*L"]  # tokens of a chunk, beyond which it sees no other keys
    attention: Hyperparameters


def position_tables(
    layers: int,
    heads: int,
    head_dim: int,
    *,
    inverse_frequencies: NDArray[np.float64] | None = None,
    attention_factor: float | NDArray[np.float64] = 1.0,
    decay: NDArray[np.float64] | None = None,
    slopes: NDArray[np.float64] | None = None,
    window: int = NO_WINDOW,
    initial_tokens: int = 0,
    chunk: int = NO_WINDOW,
) -> PositionTables:
    """The same row for every layer, [L, …]. The defaults are NoPE without a window.

    Layers that differ are rows of two tables (`by_layer`), or rows set by hand.

    Args:
        layers: L.
        heads: N.
        head_dim: H.
        inverse_frequencies: float64 [pairs], [coordinates, pairs] or [T, coordinates, pairs], in rad per token.
        attention_factor: multiplies cosine and sine; broadcasts to [pairs] or [T, pairs].
        decay: [pairs], ln ζ of xPos per token.
        slopes: [N], of ALiBi.
        window: newest keys that a query sees, itself included.
        initial_tokens: first keys that it sees besides.
        chunk: tokens of a chunk, beyond which it sees no other keys.

    Raises:
        ValueError: for a window or chunk below 1, initial tokens below 0, and slopes that are not one a head.
    """
    for name, value, least in (("window", window, 1), ("chunk", chunk, 1), ("initial_tokens", initial_tokens, 0)):
        if value < least:
            raise ValueError(f"{name} = {value}: give at least {least}")
    if slopes is not None and np.shape(slopes) != (heads,):
        raise ValueError(f"slopes of shape {np.shape(slopes)}: {heads} heads have one each")
    table = np.zeros(head_dim // 2) if inverse_frequencies is None else np.asarray(inverse_frequencies, np.float64)
    table = table[None] if table.ndim == 1 else table
    factors = np.broadcast_to(np.asarray(attention_factor, np.float64), (*table.shape[:-2], table.shape[-1]))
    return PositionTables(
        frequencies=fixed_point(np.broadcast_to(table, (layers, *table.shape))),
        attention_factor=same_rows(factors, layers),
        decay=same_rows(np.zeros(table.shape[-1]) if decay is None else decay, layers),
        slopes=same_rows(np.zeros(heads) if slopes is None else slopes, layers),
        temperature=same_rows(0, layers),
        temperature_span=same_rows(1, layers),
        window=same_rows(window, layers, np.int32),
        initial_tokens=same_rows(initial_tokens, layers, np.int32),
        chunk=same_rows(chunk, layers, np.int32),
        attention=hyperparameters(layers),
    )


def by_layer(first: PositionTables, second: PositionTables, of_second: Bool[np.ndarray, " L"]) -> PositionTables:
    """Tables whose layers are rows of `second` where `of_second`, and of `first` elsewhere.

    With NoPE as the second table in every fourth layer this is iRoPE (Llama 4, Meta 2025; SmolLM3 2025); with a window in the
    second one it is the alternation of Gemma 2 (arXiv:2408.00118).
    """

    def chosen(a: Array, b: Array) -> Array:
        return jnp.where(of_second.reshape(-1, *[1] * (a.ndim - 1)), b, a)

    return jax.tree.map(chosen, first, second)
