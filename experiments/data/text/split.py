"""How a corpus is divided into training and held-out text, and its digest."""

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from leadline.experiments.data.text.corpus import Document
from leadline.experiments.runtime.errors import UserError

# Sets this use of SHA-256 apart from the digests, so that no digest of a text says on which side it falls.
SPLIT_KEY = b"leadline held-out split 1"


class Side:
    """The documents of one side in the order of the corpus, read in each pass.

    Its count, bytes and digest are of the texts that were added in the first pass. Any later pass to the end raises UserError
    if the texts are not those.
    """

    def __init__(self, documents: Iterable[Document], part: Callable[[bytes], bytes | None]) -> None:
        """`documents` are those of both sides; `part` returns the part of a text that lies on this side, or None."""
        self._documents, self._part = documents, part
        self._count, self.bytes, self._digest = 0, 0, hashlib.sha256()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Document]:
        digest = hashlib.sha256()
        for document in self._documents:
            text = self._part(document.text)
            if text is not None:
                digest.update(_sha256(text))
                yield Document(document.name, text)
        if digest.hexdigest() != self.digest:
            raise UserError("a file of the corpus changed while it was read; run again when nothing writes to the corpus")

    @property
    def digest(self) -> str:
        """`corpus_digest` of the texts that were added."""
        return self._digest.hexdigest()

    def add(self, text: bytes, digest: bytes) -> None:
        """Counts a text of this side, whose SHA-256 is `digest`."""
        self._count += 1
        self.bytes += len(text)
        self._digest.update(digest)


@dataclass(frozen=True)
class Split:
    """The sides of a corpus, the share that was asked for, and the digest of the corpus."""

    train: Side
    held_out: Side
    share: float
    digest: str


def split(documents: Iterable[Document], held_out_share: float = 0.05) -> Split:
    """Divides by document: one is held out when a keyed SHA-256 of its text, as a number in [0, 1), is below the share.

    So a document's side depends on its text alone, not on order, names or other documents, and copies of one text never
    lie on both sides. The share holds on average. A single document is divided by position: its last `held_out_share`
    of bytes, from the next whole character on, is held out. The documents are read once here, and once in each pass over a
    side.

    Raises:
        UserError: when the share is not between 0 and 1 or a side would be empty.
    """
    if not 0.0 < held_out_share < 1.0:
        raise UserError(f"the held-out share is {held_out_share}; it must lie between 0 and 1")

    def is_held_out(text: bytes) -> bool:
        return _place(_sha256(text)) < held_out_share

    whole = Side(documents, lambda text: text)
    train = Side(documents, lambda text: None if is_held_out(text) else text)
    held_out = Side(documents, lambda text: text if is_held_out(text) else None)
    lowest, highest, document = 1.0, 0.0, Document("", b"")
    for document in documents:
        digest = _sha256(document.text)
        place = _place(digest)
        lowest, highest = min(lowest, place), max(highest, place)
        for side in (whole, held_out if place < held_out_share else train):
            side.add(document.text, digest)
    if not len(whole):
        raise UserError("there are no documents to divide; name some text")
    if len(whole) == 1:
        return _split_by_position(documents, document, held_out_share)
    if not lowest < held_out_share <= highest:
        raise UserError(_one_sided(len(whole), lowest, highest, held_out_share))
    return Split(train, held_out, held_out_share, whole.digest)


def corpus_digest(documents: Iterable[Document]) -> str:
    """SHA-256, in hexadecimal, of the texts in their order. Names do not count: they change no number."""
    whole = Side(documents, lambda text: text)
    for document in documents:
        whole.add(document.text, _sha256(document.text))
    return whole.digest


def _sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _place(digest: bytes) -> float:
    """A number in [0, 1) from the first 53 bits of the keyed hash of a text's digest, which a float64 holds exactly."""
    bits = _sha256(SPLIT_KEY + digest)
    return (int.from_bytes(bits[:8], "big") >> 11) * 2.0**-53


def _one_sided(count: int, lowest: float, highest: float, share: float) -> str:
    """Which side is empty, and the nearest share, to four digits, that would fill it."""
    side = "training" if highest < share else "held-out"
    empty = f"the {side} text is empty: none of the {count} documents falls on that side at a share of {share}"
    # The share that fills both sides lies above the smallest place and at or below the largest.
    remedy = int(lowest * 1e4 + 1) / 1e4 if side == "held-out" else int(highest * 1e4) / 1e4
    if not lowest < remedy <= highest:
        return f"{empty}; add documents, or join them into one file, which is divided by position"
    return f"{empty}; a held-out share of {remedy:g} would do, or more documents, or all of them in one file"


def _split_by_position(documents: Iterable[Document], document: Document, share: float) -> Split:
    text = document.text
    cut = len(text) - max(1, round(len(text) * share))
    # Bytes 10xxxxxx continue a character of UTF-8.
    while 0 < cut < len(text) and text[cut] & 0xC0 == 0x80:
        cut += 1
    if not 0 < cut < len(text):
        raise UserError(f"{document.name}: {len(text)} bytes are too short to divide at a share of {share}; add text")
    sides = []
    for part in (slice(0, cut), slice(cut, len(text))):
        sides.append(Side(documents, operator.itemgetter(part)))
        sides[-1].add(text[part], _sha256(text[part]))
    return Split(sides[0], sides[1], share, corpus_digest([document]))
