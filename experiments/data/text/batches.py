"""Rows of text as pure functions of (seed, item): there is no iterator, so there is no iterator state to save.

A row of `length` inputs and their targets has `length + 1` ids: the inputs are row[:-1], the targets row[1:].
"""

from typing import Literal

import numpy as np
from jaxtyping import Int32, Int64, Integer

from leadline.experiments.data.permutation import keyed, mix, permute
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer

# Keeps the draw of first tokens apart from the order of windows under the same seed: far above the number of rounds, by
# which the permutation tells its round keys apart.
FIRST_TOKEN_STREAM = 2**32

FirstTokens = Int32[np.ndarray, "candidates"]


def first_tokens(policy: Literal["fixed", "absent", "random", "document"], tokenizer: Tokenizer) -> FirstTokens:
    """The ids from which the first token of a row is drawn, uniformly.

    Args:
        policy: "absent", "document": no id, the row begins within the corpus. "fixed": BOS alone. "random": every id that is no
            special token (the random first token of Gu et al., "When Attention Sink Emerges in Language Models", 2024).
        tokenizer: whose ids they are.

    Raises:
        UserError: for "fixed" where the tokenizer has no BOS.
    """
    specials = tokenizer.specials
    match policy:
        case "absent" | "document":
            candidates = np.empty(0)
        case "fixed":
            candidates = np.array([bos_of(tokenizer)])
        case "random":
            candidates = np.setdiff1d(np.arange(tokenizer.vocabulary_size), specials.ids())
    return candidates.astype(np.int32)


def bos_of(tokenizer: Tokenizer) -> int:
    """BOS. UserError where the tokenizer has none."""
    if tokenizer.specials.bos is None:
        raise UserError(f'data.bos needs a BOS, and tokenizer {tokenizer.name} has none; take "absent"')
    return tokenizer.specials.bos


def tokens_per_row(length: int, first: FirstTokens) -> int:
    """Tokens of the corpus in a row: length + 1, or `length` where the row begins with a first token of its own."""
    return length + 1 - min(1, len(first))


def text_rows(
    tokens: Integer[np.ndarray, "corpus"], seed: int, item: Int64[np.ndarray, "items"], length: int, first: FirstTokens
) -> Int32[np.ndarray, "items {length}+1"]:
    """The rows of these items of training; step s of batch size B has the items s·B … s·B + B - 1.

    The corpus is cut into n = corpus // tokens_per_row windows that do not overlap; what is left at its end is not used.
    Item e·n + j is window pi_e(j), where pi_e is a permutation of range(n) keyed by (seed, e). So every window comes once an
    epoch, in a new order each time, and a batch may cross the end of an epoch.

    Raises:
        UserError: when a window is longer than the corpus.
    """
    size = tokens_per_row(length, first)
    windows = len(tokens) // size
    if not windows:
        raise UserError(f"a window of {length} takes {size} tokens and the text has {len(tokens)}; shorten it or add text")
    epoch, place = np.divmod(item, windows)
    begins = permute(place, windows, keyed(seed, epoch)) * size
    return rows_at(tokens, begins, size, drawn_first(first, seed, item))


def rows_at(
    tokens: Integer[np.ndarray, "corpus"],
    begins: Integer[np.ndarray, "items"],
    size: int,
    first: Int32[np.ndarray, "items first"],
) -> Int32[np.ndarray, "items T"]:
    """The first token of each row, if there is one, and `size` tokens of the corpus from `begins` on."""
    return np.concatenate([first, tokens[begins[:, None] + np.arange(size)].astype(np.int32)], axis=1)


def drawn_first(first: FirstTokens, seed: int, item: Integer[np.ndarray, "items"]) -> Int32[np.ndarray, "items first"]:
    """One candidate for each item, by a hash of (seed, item); no column where there is no candidate."""
    if not len(first):
        return np.empty((len(item), 0), np.int32)
    bits = mix(keyed(seed, item) + np.uint64(FIRST_TOKEN_STREAM))
    # The remainder favours low ids by less than candidates / 2^64.
    return first[bits % np.uint64(len(first))][:, None]
