"""Learned absolute positions."""

from jaxtyping import Array, Float, Int


def add_positions(x: Float[Array, "B T D"], table: Float[Array, "C D"], positions: Int[Array, " T"]) -> Float[Array, "B T D"]:
    """x + table[positions] (Gehring et al. 2017, arXiv 1705.03122). The table ends at the training length C: a longer text is
    a ValueError, because no vector was ever trained for its positions."""
    if positions.shape[0] > table.shape[0]:
        raise ValueError(f"learned positions end at {table.shape[0]}, the text has {positions.shape[0]} tokens")
    return x + table[positions][None].astype(x.dtype)
