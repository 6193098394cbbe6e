"""Batches of text as pure functions of (seed, step): there is no iterator, so there is no iterator state to save.

A window of `length` inputs and their targets is one row of `length + 1` ids: inputs are row[:-1], targets row[1:].
"""

from typing import Literal

import numpy as np
from jaxtyping import Int, Int32, Int64, Integer

from experiments.data.permutation import keyed, mix, permute
from experiments.errors import UserError
from tokenization.tokenizer import Tokenizer

# Keeps the draw of first tokens apart from the order of windows under the same seed: far above the number of rounds, by
# which the permutation tells its round keys apart.
FIRST_TOKEN_STREAM = 2**32
HELD_OUT_SEED = 0


def first_tokens(policy: Literal["fixed", "absent", "random"], tokenizer: Tokenizer) -> Int32[np.ndarray, "candidates"]:
    """The ids from which the first token of a window is drawn, uniformly.

    None for "absent" (the window begins in the corpus), BOS alone for "fixed", and every id that is no special for
    "random" (the random first token of Gu et al., "When Attention Sink Emerges in Language Models", 2024).

    Raises UserError when "fixed" is asked of a tokenizer without BOS.
    """
    specials = tokenizer.specials
    match policy:
        case "absent":
            candidates = np.empty(0)
        case "fixed":
            if specials.bos is None:
                raise UserError(f'bos = "fixed" needs a BOS, and tokenizer {tokenizer.name} has none; use "absent"')
            candidates = np.array([specials.bos])
        case "random":
            candidates = np.setdiff1d(np.arange(tokenizer.vocabulary_size), specials.ids())
    return candidates.astype(np.int32)


def text_batch(
    tokens: Integer[np.ndarray, "corpus"],
    seed: int,
    step: int,
    batch: int,
    length: int,
    bos: Int32[np.ndarray, "candidates"],
) -> Int32[np.ndarray, "{batch} {length}+1"]:
    """The windows of one training step.

    The corpus is cut into n = corpus // stretch windows that do not overlap; stretch is length + 1, or length where a
    first token is put in front (`bos`: see `first_tokens`). Item i of step s is window pi_e(j), where
    s * batch + i = e * n + j and pi_e is a permutation of range(n) keyed by (seed, e): every window once an epoch, in a
    new order each time. A batch may cross the end of an epoch. The last corpus % stretch tokens are not used.

    Raises UserError when the window is longer than the corpus.
    """
    return text_rows(tokens, seed, step * batch + np.arange(batch, dtype=np.int64), length, bos)


def text_rows(
    tokens: Integer[np.ndarray, "corpus"],
    seed: int,
    item: Int64[np.ndarray, "items"],
    length: int,
    bos: Int32[np.ndarray, "candidates"],
) -> Int32[np.ndarray, "items {length}+1"]:
    """The windows of these items, as `text_batch` counts them: all of the steps of training, one after another.

    Raises UserError when the window is longer than the corpus.
    """
    stretch = _stretch(tokens, length, bos)
    windows = len(tokens) // stretch
    epoch, place = np.divmod(item, windows)
    window = permute(place, windows, keyed(seed, epoch))
    return _rows(tokens, window, stretch, stretch, _draw(bos, seed, item))


def held_out_windows(
    tokens: Integer[np.ndarray, "corpus"],
    length: int,
    count_tokens: int,
    bos: Int32[np.ndarray, "candidates"],
    stride: int | None = None,
) -> Int32[np.ndarray, "W {length}+1"]:
    """The first windows of the held-out tokens, in order.

    Without a stride they do not overlap and W = count_tokens // length; with one each begins `stride` tokens behind the
    one before, and W = 1 + (count_tokens - length) // stride. They depend on no seed: all arms and all seeds are
    measured on the same rows, random first tokens included.

    Raises UserError when count_tokens is below one window or the tokens do not suffice.
    """
    stretch = _stretch(tokens, length, bos)
    step = stretch if stride is None else stride
    windows = count_tokens // length if stride is None else 1 + (count_tokens - length) // stride
    if windows < 1 or count_tokens < length:
        raise UserError(f"{count_tokens} tokens to measure on are less than one window of {length}; measure on more")
    if (needed := (windows - 1) * step + stretch) > len(tokens):
        fitting = 1 + (len(tokens) - stretch) // step
        enough = fitting * length if stride is None else length + (fitting - 1) * stride
        raise UserError(
            f"{windows} held-out windows of {length} need {needed} tokens, and the held-out text has "
            f"{len(tokens)}; measure on {enough} tokens or fewer, or add text"
        )
    window = np.arange(windows, dtype=np.int64)
    return _rows(tokens, window, step, stretch, _draw(bos, HELD_OUT_SEED, window))


def target_places(
    windows: int, length: int, bos: Int32[np.ndarray, "candidates"], stride: int | None = None
) -> Int[np.ndarray, "{windows} {length}"]:
    """Where in the held-out tokens each target of `held_out_windows` stands."""
    ahead = 1 - min(1, len(bos))
    step = length + ahead if stride is None else stride
    return (np.arange(windows) * step)[:, None] + np.arange(length) + ahead


def _stretch(tokens: Integer[np.ndarray, "corpus"], length: int, bos: Int32[np.ndarray, "candidates"]) -> int:
    stretch = length + 1 - min(1, len(bos))
    if stretch > len(tokens):
        raise UserError(f"a window of {length} takes {stretch} tokens and the text has {len(tokens)}; shorten it or add text")
    return stretch


def _draw(
    bos: Int32[np.ndarray, "candidates"], seed: int, item: Integer[np.ndarray, "items"]
) -> Int32[np.ndarray, "items first"]:
    """One candidate for each item, by a hash of (seed, item); no column where there is no candidate."""
    if not len(bos):
        return np.empty((len(item), 0), np.int32)
    bits = mix(keyed(seed, item) + np.uint64(FIRST_TOKEN_STREAM))
    # The remainder favours low ids by less than candidates / 2^64.
    return bos[bits % np.uint64(len(bos))][:, None]


def _rows(
    tokens: Integer[np.ndarray, "corpus"],
    window: Integer[np.ndarray, "items"],
    step: int,
    stretch: int,
    first: Int32[np.ndarray, "items first"],
) -> Int32[np.ndarray, "items T"]:
    inside = window[:, None] * step + np.arange(stretch)
    return np.concatenate([first, tokens[inside].astype(np.int32)], axis=1)
