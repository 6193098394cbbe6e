"""How a vocabulary is used: bytes of tokens, ids that training hardly sees, words that are unknown."""

import math

import numpy as np
from jaxtyping import Array, Float, Int, UInt

from leadline.tokenization.tokenizer import Tokenizer

# An id that occurs less often in training is rare: its embedding has hardly been trained.
RARE = 10


def token_sizes(tokenizer: Tokenizer, ids: int) -> Int[np.ndarray, "{ids}"]:
    """Bytes of each of `ids` ids of a tokenizer: 0 for specials, and for ids that it does not use."""
    known = min(ids, tokenizer.vocabulary_size)
    sizes = np.zeros(ids, np.int64)
    sizes[:known] = [len(tokenizer.token_bytes(i)) for i in range(known)]
    return sizes


def bits_per_byte(
    losses: Float[Array | np.ndarray, "W T"], sizes: Float[Array | np.ndarray, "W T"]
) -> Float[Array, ""] | np.floating:
    """Σ loss / (ln 2 · Σ bytes), from the loss [nats] and the bytes of every target: comparable between vocabularies.

    A target without bytes (EOS) adds its loss: the bits that a model spends on the ends of documents count.
    """
    return losses.sum() / (math.log(2) * sizes.sum())


def rare_shares(train: Int[np.ndarray, " V"], held_out: Int[np.ndarray, " V"]) -> tuple[float, float]:
    """Share of the ids that occur less than RARE times in training, and share of the held-out tokens that are such ids.

    Args:
        train: occurrences of every id in the training text.
        held_out: in the held-out text.
    """
    rare = train < RARE
    return float(np.mean(rare)), float(np.sum(held_out[rare]) / np.sum(held_out))


def unknown_share(ids: Int[np.ndarray, " ids"] | UInt[np.ndarray, " ids"], unk: int | None) -> float:
    """The share of UNK among the tokens of a text: its out-of-vocabulary rate. 0 for a tokenizer without UNK."""
    return 0.0 if unk is None else float(np.mean(ids == unk))
