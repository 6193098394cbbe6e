"""Held-out text as it is scored: windows, which of their targets count, and the document of each."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32, Integer

from experiments.data.batches import held_out_windows, target_places


@dataclass(frozen=True)
class HeldOut:
    """W windows of T inputs; row[:-1] predicts row[1:].

    Attributes:
        windows: the ids.
        counted: whether a target counts: every one of windows that do not overlap; of sliding windows all of the first
            and the last `stride` of each later one, so that no token counts twice.
        documents: the number of the document that each target belongs to, from 0; EOS ends its own.
    """

    windows: Int32[np.ndarray, "W T_and_1"]
    counted: Bool[np.ndarray, "W T"]
    documents: Int[np.ndarray, "W T"]


def held_out_text(
    tokens: Integer[np.ndarray, "corpus"],
    length: int,
    count_tokens: int,
    bos: Int32[np.ndarray, "candidates"],
    eos: int | None,
    stride: int | None = None,
) -> HeldOut:
    """The windows of `held_out_windows`; without EOS the text is one document."""
    windows = held_out_windows(tokens, length, count_tokens, bos, stride)
    places = target_places(len(windows), length, bos, stride)
    counted = np.ones(places.shape, bool)
    if stride is not None:
        counted[1:, : length - stride] = False
    ends = tokens[: places.max() + 1] == eos if eos is not None else np.zeros(places.max() + 1, bool)
    return HeldOut(windows, counted, (np.cumsum(ends) - ends)[places])
