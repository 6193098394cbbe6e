"""Text of several corpora by weight, as it is trained and measured on; one corpus is a mixture of one part.

Rows are dealt to the parts by a schedule that is computed, not drawn: which part row m is of, and how many rows of that part
came before it, are functions of m. So a batch stays a function of (seed, step), and shares are exact at every step.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from experiments.data.batches import text_rows
from experiments.data.held_out import HeldOut, held_out_text
from experiments.data.permutation import keyed
from experiments.data.tokens import TokenFiles
from experiments.errors import UserError

# Part of every digest of more than one part: raise it whenever the same parts would be mixed differently.
FORMAT = 1
# Shares are so many binary digits long: products with the number of a row fit 64 bits up to 2^43 rows.
DIGITS = 20
# Keeps the seeds of parts apart from the epochs and items that a seed is mixed with: above any of their numbers.
PART_STREAM = 2**48


def shares_of(weights: Sequence[float]) -> tuple[int, ...]:
    """The share of each part in what the parts before it leave, in units of 2^-20; the last one takes all of it.

    A share is rounded to a unit, but never to nothing. Raises UserError for a weight that is not positive and finite.
    """
    if not all(0 < weight < float("inf") for weight in weights):
        raise UserError(f"the weights of a mixture are {list(weights)}; each must be positive")
    one = 1 << DIGITS
    left = [weight / sum(weights[number:]) for number, weight in enumerate(weights[:-1])]
    return (*(max(1, min(one - 1, round(share * one))) for share in left), one)


def scheduled(
    item: Int64[np.ndarray, "items"], shares: tuple[int, ...]
) -> tuple[Int64[np.ndarray, "items"], Int64[np.ndarray, "items"]]:
    """The part of each item, and how many items of that part come before it.

    Of the items 0 … m - 1 the first part has m · share, rounded; the second has its share of the others, rounded; and so on.
    As each share is below 1, one more item raises one of the counts by one. After any number of items no part is further
    from its share than half an item for each of the parts.
    """
    part, own = np.full(item.shape, len(shares) - 1), item.astype(np.int64)
    left = np.ones(item.shape, bool)
    half = 1 << DIGITS - 1
    for number, share in enumerate(shares[:-1]):
        before, after = ((own + more) * share + half >> DIGITS for more in (0, 1))
        taken = left & (after > before)
        part[taken] = number
        left &= ~taken
        own = np.where(taken, before, np.where(left, own - before, own))
    return part, own


@dataclass(frozen=True)
class WeightedText:
    """Token files of the parts, their names for messages, and `shares_of` their weights.

    Every row has as many tokens, so that shares of rows are shares of tokens. Within a part windows go by its own
    permutations: each window once an epoch of that part, and parts with fewer windows for their weight sooner again.
    """

    parts: tuple[TokenFiles, ...]
    names: tuple[str, ...]
    shares: tuple[int, ...]

    @property
    def digest(self) -> str:
        """Of all that decides the tokens and their order, up to the seed; that of the part where it is alone."""
        if len(self.parts) == 1:
            return self.parts[0].digest
        content = [FORMAT, [part.digest for part in self.parts], self.shares]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def train_tokens(self) -> int:
        return sum(len(part.train) for part in self.parts)

    @property
    def held_out_tokens(self) -> int:
        return sum(len(part.held_out) for part in self.parts)

    def batch(
        self, seed: int, step: int, batch: int, length: int, bos: Int32[np.ndarray, "candidates"]
    ) -> Int32[np.ndarray, "{batch} {length}+1"]:
        """The windows of one training step: `text_batch`, but each row of the part that it is scheduled for.

        Raises UserError when a window is longer than a part.
        """
        part, own = scheduled(step * batch + np.arange(batch, dtype=np.int64), self.shares)
        rows = np.empty((batch, length + 1), np.int32)
        for number, files in enumerate(self.parts):
            chosen = part == number
            rows[chosen] = text_rows(files.train, _part_seed(seed, number), own[chosen], length, bos)
        return rows

    def held_out(
        self, length: int, count_tokens: int, bos: Int32[np.ndarray, "candidates"]
    ) -> Int32[np.ndarray, "W {length}+1"]:
        """`held_out_windows`, each of the part that it is scheduled for: held-out text has the shares of training text.

        Raises UserError when count_tokens is below one window or the held-out tokens of a part do not suffice.
        """
        return self.scored(length, count_tokens, bos, None).windows

    def scored(
        self,
        length: int,
        count_tokens: int,
        bos: Int32[np.ndarray, "candidates"],
        eos: int | None,
        stride: int | None = None,
    ) -> HeldOut:
        """`held_out_text` of those windows, or of sliding ones: those of one part slide over its text. Raises the same."""
        step = length if stride is None else stride
        windows = max(1, count_tokens // length if stride is None else 1 + (count_tokens - length) // stride)
        part, _ = scheduled(np.arange(windows, dtype=np.int64), self.shares)
        whole = HeldOut(
            np.empty((windows, length + 1), np.int32), np.empty((windows, length), bool), np.empty((windows, length), np.int64)
        )
        documents = 0
        for number in np.unique(part):
            chosen = part == number
            own = self._own_held_out(int(number), length, count_tokens - step * int((~chosen).sum()), bos, eos, stride)
            whole.windows[chosen], whole.counted[chosen] = own.windows, own.counted
            whole.documents[chosen] = own.documents + documents
            documents += int(own.documents.max()) + 1
        return whole

    def _own_held_out(
        self,
        number: int,
        length: int,
        count_tokens: int,
        bos: Int32[np.ndarray, "candidates"],
        eos: int | None,
        stride: int | None,
    ) -> HeldOut:
        try:
            return held_out_text(self.parts[number].held_out, length, count_tokens, bos, eos, stride)
        except UserError as error:
            if len(self.parts) == 1:
                raise
            raise UserError(f"{self.names[number]}, a part of the mixture: {error}") from error


def _part_seed(seed: int, number: int) -> int:
    """The first part keeps the seed, so that one corpus alone is ordered as a mixture of one."""
    return seed if number == 0 else int(keyed(seed, np.array([PART_STREAM + number]))[0])
