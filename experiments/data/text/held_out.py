"""Held-out text: its documents, the windows that are drawn from all of them, and windows of a stream of them.

A draw depends on the text and on HELD_OUT_SEED alone, so all arms and seeds are measured on the same windows. Text is a random
effect: an interval needs many documents, so a draw reports the document of every target and the group of that document. What
is measured can be measured again without each group.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from jaxtyping import Bool, Int, Int32, UInt

from leadline.experiments.data.permutation import keyed, permute
from leadline.experiments.data.sample import HELD_OUT_SEED
from leadline.experiments.data.text.batches import FirstTokens, drawn_first, rows_at, tokens_per_row
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.formats import inner_suffix
from leadline.experiments.runtime.errors import UserError

# Suffixes of what is read from a folder (experiments.data.text.formats) and is a program.
CODE = frozenset({".py"})
# The fewest documents that a draw of windows should touch: with fewer, an interval over documents is not reliable.
ENOUGH_DOCUMENTS = 30
# Number of groups of documents. More groups tell more of how documents differ, and take more room in every record.
GROUPS = 16


@dataclass(frozen=True)
class HeldOut:
    """W windows of T inputs; row[:-1] predicts row[1:]."""

    windows: Int32[np.ndarray, "W T_and_1"]
    counted: Bool[np.ndarray, "W T"]  # targets that count: with a stride only the last `stride` targets of a window do
    documents: Int[np.ndarray, "W T"]  # the number of each target's document; EOS belongs to the document that it ends
    groups: Int[np.ndarray, "W T"]  # the number of its group, below GROUPS; the same whatever the length of windows
    first: int = 0  # ids at the beginning of each row that are put before the text: 0, or 1 with a first token

    @property
    def document_count(self) -> int:
        """Documents that have a counted target."""
        return len(np.unique(self.documents[self.counted]))

    @property
    def enough_documents(self) -> bool:
        """Whether an interval over documents is reliable."""
        return self.document_count >= ENOUGH_DOCUMENTS

    @property
    def window_groups(self) -> Int[np.ndarray, " W"]:
        """The group of the first target of each window that counts."""
        return self.groups[np.arange(len(self.groups)), np.argmax(self.counted, axis=1)]

    @property
    def groups_if_enough(self) -> Int[np.ndarray, " W"] | None:
        """`window_groups`; None where documents are too few for an interval."""
        return self.window_groups if self.enough_documents else None

    def ending(self, length: int) -> "HeldOut":
        """The last `length` targets of each window, with the first token before them: the same text with less context."""
        begin = self.windows.shape[1] - (length + 1 - self.first)
        windows = np.concatenate([self.windows[:, : self.first], self.windows[:, begin:]], axis=1)
        counted, documents, groups = (part[:, -length:] for part in (self.counted, self.documents, self.groups))
        return HeldOut(windows, counted, documents, groups, self.first)


@dataclass(frozen=True)
class Documents:
    """Held-out documents one after another."""

    ids: UInt[np.ndarray, "tokens"]  # of all documents, each ended by EOS
    ends: Int[np.ndarray, "D"]  # the index in `ids` after the EOS of each document
    sizes: Int[np.ndarray, "D"]  # bytes of text of each document
    code: Bool[np.ndarray, "D"]  # whether the document is a program

    def __len__(self) -> int:
        return len(self.ends)

    def groups(self) -> Int[np.ndarray, "D"]:
        """The group of each document: the largest first, each goes to the group that has the fewest bytes."""
        groups, loads = np.empty(len(self), np.int64), np.zeros(GROUPS)
        for number in np.argsort(-self.sizes, kind="stable"):
            groups[number] = np.argmin(loads)
            loads[groups[number]] += self.sizes[number]
        return groups

    def tokens_of(self, number: int) -> UInt[np.ndarray, "n"]:
        """The ids of one document, EOS included."""
        return self.ids[self.ends[number - 1] if number else 0 : self.ends[number]]


def documents_of(texts: Iterable[Document], ids: UInt[np.ndarray, "tokens"], eos: int) -> Documents:
    """The documents of these ids, beside their texts in the same order.

    Raises:
        ValueError: where there are not as many EOS as texts.
    """
    ends = np.flatnonzero(ids == eos) + 1
    facts = [(len(text.text), inner_suffix(PurePath(text.name)) in CODE) for text in texts]
    if len(facts) != len(ends):
        raise ValueError(f"{len(facts)} documents and {len(ends)} EOS among their ids")
    sizes, code = zip(*facts, strict=True)
    return Documents(ids, ends, np.array(sizes), np.array(code))


def by_domain(parts: Sequence[Documents]) -> dict[str, Documents]:
    """The documents of all parts that are "code" and those that are "prose", as far as there are any."""
    domains = {}
    for domain, is_code in (("code", True), ("prose", False)):
        tokens = [part.tokens_of(int(number)) for part in parts for number in np.flatnonzero(part.code == is_code)]
        if tokens:
            ends, code = np.cumsum([len(ids) for ids in tokens]), np.full(len(tokens), is_code)
            sizes = np.concatenate([part.sizes[part.code == is_code] for part in parts])
            domains[domain] = Documents(np.concatenate(tokens), ends, sizes, code)
    return domains


def keyed_order(count: int) -> Int[np.ndarray, "{count}"]:
    """range(count) in the order of a permutation whose key is HELD_OUT_SEED and the count, and nothing else."""
    return permute(np.arange(count), count, keyed(HELD_OUT_SEED, np.array([count])))


def slot_count(documents: Documents, length: int, first: FirstTokens, stride: int | None = None) -> int:
    """How many windows `held_out_windows` can draw from.

    Raises:
        UserError: for a stride above the length, which would leave tokens between windows out.
    """
    if stride is not None and stride > length:
        raise UserError(f"a stride of {stride} leaves out tokens between windows of {length}; make it {length} or less")
    size = tokens_per_row(length, first)
    return max(0, 1 + (len(documents.ids) - size) // (stride or size))


def held_out_windows(documents: Documents, length: int, windows: int, first: FirstTokens, stride: int | None = None) -> HeldOut:
    """Windows of `length` targets drawn from all documents; `windows` of them, or as many as there are.

    The text is cut into slots one after another, without regard to where documents end: a slot is a window, or with a
    stride the last `stride` targets of a window, whose other tokens lie before the slot. Slots are drawn in the order of a
    permutation that is keyed by their number, so that each is equally likely. Where the drawn slots begin in fewer than
    ENOUGH_DOCUMENTS documents, as in a corpus of one giant and many small ones, the draw is stratified: in the same order, at
    most windows / ENOUGH_DOCUMENTS slots of each document come first, and the rest fills up.

    Raises:
        UserError: where the text is shorter than one window.
    """
    count = slot_count(documents, length, first, stride)
    size = tokens_per_row(length, first)
    if not count:
        raise UserError(
            f"a window of {length} takes {size} tokens and the held-out text has {len(documents.ids)}; shorten it or add text"
        )
    step = stride or size
    context = 0 if stride is None else length - stride  # targets of a window that do not count
    begins = np.arange(count) * step + size - length  # of the targets
    chosen = _spread(keyed_order(count), np.searchsorted(documents.ends, begins + context, side="right"), windows)
    numbers = np.searchsorted(documents.ends, begins[chosen, None] + np.arange(length), side="right")
    return HeldOut(
        rows_at(documents.ids, chosen * step, size, drawn_first(first, HELD_OUT_SEED, chosen)),
        np.tile(np.arange(length) >= context, (len(chosen), 1)),
        numbers,
        documents.groups()[numbers],
        min(1, len(first)),
    )


def _spread(order: Int[np.ndarray, "S"], document: Int[np.ndarray, "S"], windows: int) -> Int[np.ndarray, "W"]:
    """The first `windows` slots of the order, stratified where they begin in too few documents."""
    drawn = order[:windows]
    if len(drawn) == len(order) or len(np.unique(document[drawn])) >= ENOUGH_DOCUMENTS:
        return drawn
    grouped = np.argsort(document[order], kind="stable")  # by document, in keyed order within each
    in_groups = document[order][grouped]
    place = np.empty(len(order), np.int64)  # of each slot among those of its document
    place[grouped] = np.arange(len(order)) - np.searchsorted(in_groups, in_groups)
    few = place < max(1, windows // ENOUGH_DOCUMENTS)
    return np.concatenate([order[few], order[~few]])[:windows]


@dataclass(frozen=True)
class Recomputed:
    """W windows of T inputs of a stream; row[:-1] predicts row[1:]."""

    windows: Int32[np.ndarray, "W T_and_1"]
    places: Int[np.ndarray, "W T"]  # where in the stream each input stands
    counted: Bool[np.ndarray, "W T"]  # targets that count: all of the first window, the last `stride` of every other window


def recomputed_windows(
    text: Int32[np.ndarray, "tokens"], edges: Int[np.ndarray, " E"], length: int, stride: int, most: int, *, keep_first: bool
) -> Recomputed:
    """The first window of a stream, and windows that end evenly spaced in each bin edges[i] <= place < edges[i + 1].

    Args:
        text: the stream, and its last target.
        edges: of bins of places; the last one is the number of inputs.
        length: T, tokens of a window.
        stride: targets of a window that count.
        most: targets of a bin that count, at most; but always those of one window.
        keep_first: whether every window begins with the first token of the stream, as a BOS in training.
    """
    ends = [length]
    for low, high in itertools.pairwise(edges):
        # The segments of `stride` tokens that begin in the bin: the last of them may reach into the next one.
        fitting = np.arange(-(-max(int(low), length) // stride), min(-(-int(high) // stride), int(edges[-1]) // stride))
        chosen = np.unique(np.linspace(0, len(fitting) - 1, min(len(fitting), max(1, most // stride))).round().astype(int))
        ends += [int(end) for end in (fitting[chosen] + 1) * stride]
    begins = np.array(ends)[:, None] - length
    windows = text[begins + np.arange(length + 1)]
    if keep_first:
        windows[:, 0] = text[0]
    counted = np.broadcast_to(np.arange(length) >= length - stride, (len(ends), length)).copy()
    counted[0] = True
    return Recomputed(windows, begins + np.arange(length), counted)
