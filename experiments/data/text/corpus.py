"""Documents: where text comes from, how it is divided into training and held-out text, and its digest.

A document's text is bytes in valid UTF-8, as on disk: no newline or Unicode form is changed. Texts are read one after the
other, again in every pass over them, so that a corpus may be larger than memory.
"""

import hashlib
import operator
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

from leadline.experiments.data.text.formats import COMPRESSED, PARQUET, TEXT_SUFFIXES, file_texts, first_invalid, is_text
from leadline.experiments.data.text.hub import PREFIX, hub_texts
from leadline.experiments.runtime.errors import UserError

# Not the standard library, or its tests, or made for one build of Python and different on each machine.
SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
SKIPPED_FOLDER_PREFIX = "config-"
SKIPPED_FILES = frozenset({"sitecustomize.py", "usercustomize.py"})
SKIPPED_FILE_PREFIX = "_sysconfigdata"
TOPICS = "pydoc_data/topics"

# Sets this use of SHA-256 apart from the digests, so that no digest of a text says on which side it falls.
SPLIT_KEY = b"leadline held-out split 1"


@dataclass(frozen=True)
class Document:
    """A name for messages and the text, UTF-8."""

    name: str
    text: bytes


# Returns the documents of a file, each a name and a text, from the beginning at every call.
Source = Callable[[], Iterable[tuple[str, bytes]]]


@dataclass(frozen=True)
class Corpus:
    """The documents of its sources in their order, read in each pass; only one of them need be in memory."""

    sources: tuple[Source, ...]

    def __iter__(self) -> Iterator[Document]:
        return (Document(name, text) for read in self.sources for name, text in read())


@dataclass(frozen=True)
class Side:
    """The documents of one side in the order of the corpus, read in each pass.

    A pass to the end raises UserError if the texts are not those of the first pass.

    Attributes:
        documents: of both sides.
        part: the part of a text that lies on this side, or None.
        count, bytes, digest: of this side, from the first pass.
    """

    documents: Iterable[Document]
    part: Callable[[bytes], bytes | None]
    count: int
    bytes: int
    digest: str

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Document]:
        digest = hashlib.sha256()
        for document in self.documents:
            text = self.part(document.text)
            if text is not None:
                digest.update(_sha256(text))
                yield Document(document.name, text)
        if digest.hexdigest() != self.digest:
            raise UserError("a file of the corpus changed while it was read; run again when nothing writes to the corpus")


@dataclass(frozen=True)
class Split:
    """The sides of a corpus, the share that was asked for, and the digest of the corpus."""

    train: Side
    held_out: Side
    share: float
    digest: str


def stdlib_documents() -> Corpus:
    """The running Python's standard library and its documentation: a corpus that needs no download.

    First the sources (*.py, sorted by path) without test suites, installed packages and files that belong to one build;
    empty files and files that are not UTF-8 are left out. Then the documentation of the language, one document per topic.
    The corpus, and so its digest, depends on the version of Python and on its packager.

    Raises:
        UserError: when Python came without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    names = sorted(path.relative_to(root).as_posix() for path in _stdlib_sources(root))
    if not names:
        raise UserError(f"this Python has no sources of its standard library in {root}; name text files instead")
    return Corpus((partial(_stdlib_texts, root, names), _topics))


def text_documents(entries: Sequence[str | Path], hub_documents: int | None = None) -> Corpus:
    """The documents of files, folders and data sets of the Hub, in the order given.

    Of a folder these are its *.txt, *.md, *.rst, *.py and *.jsonl files, also compressed (.gz, .zst), and its *.parquet files,
    at any depth, sorted by path; hidden and empty files are left out. `formats.file_texts` reads files. `hub.hub_texts` reads
    entries that begin with "hub:", at most `hub_documents` documents of each. What can be read only once, a data set of the Hub
    or a pipe, is read here and kept in memory.

    Raises:
        UserError: for a path that does not exist, a folder without text, a data set without `hub_documents` or that `hub_texts`
            refuses. Iterating raises it for what `file_texts` refuses.
    """
    sources = tuple(source for entry in entries for source in _sources(entry, hub_documents))
    if not sources:
        raise UserError("no text was named; name at least one file or folder")
    return Corpus(sources)


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
    whole, train, held_out = _Tally(), _Tally(), _Tally()
    lowest, highest, document = 1.0, 0.0, Document("", b"")
    for document in documents:
        digest = _sha256(document.text)
        place = _place(digest)
        lowest, highest = min(lowest, place), max(highest, place)
        for tally in (whole, held_out if place < held_out_share else train):
            tally.add(document.text, digest)
    if not whole.count:
        raise UserError("there are no documents to divide; name some text")
    if whole.count == 1:
        return _split_by_position(documents, document, held_out_share)
    if not lowest < held_out_share <= highest:
        raise UserError(_one_sided(whole.count, lowest, highest, held_out_share))
    return Split(
        train.side(documents, partial(_by_place, held_out_share, False)),
        held_out.side(documents, partial(_by_place, held_out_share, True)),
        held_out_share,
        whole.digest.hexdigest(),
    )


def corpus_digest(documents: Iterable[Document]) -> str:
    """SHA-256, in hexadecimal, of the texts in their order. Names do not count: they change no number."""
    tally = _Tally()
    for document in documents:
        tally.add(document.text, _sha256(document.text))
    return tally.digest.hexdigest()


def _sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


class _Tally:
    """How many texts were added, their bytes, and their digest."""

    def __init__(self) -> None:
        self.count, self.bytes, self.digest = 0, 0, hashlib.sha256()

    def add(self, text: bytes, digest: bytes) -> None:
        self.count += 1
        self.bytes += len(text)
        self.digest.update(digest)

    def side(self, documents: Iterable[Document], part: Callable[[bytes], bytes | None]) -> Side:
        return Side(documents, part, self.count, self.bytes, self.digest.hexdigest())


def _by_place(share: float, held_out: bool, text: bytes) -> bytes | None:
    return text if (_place(_sha256(text)) < share) == held_out else None


def _stdlib_texts(root: Path, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    texts = ((name, (root / name).read_bytes()) for name in names)
    return ((name, text) for name, text in texts if text and first_invalid(text) is None)


def _topics() -> Iterator[tuple[str, bytes]]:
    return ((f"{TOPICS}/{name}", topics[name].encode()) for name in sorted(topics))


def _stdlib_sources(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith(SKIPPED_FOLDER_PREFIX)]
        for file in files:
            path = Path(folder, file)
            chosen = file.endswith(".py") and file not in SKIPPED_FILES and not file.startswith(SKIPPED_FILE_PREFIX)
            if chosen and path != root / f"{TOPICS}.py":
                yield path


def _sources(entry: str | Path, hub_documents: int | None) -> list[Source]:
    if not str(entry).startswith(PREFIX):
        return _path_sources(Path(entry))
    if hub_documents is None:
        raise UserError(f"{entry}: the stream of a data set may have no end: say in data.hub_documents how many to read")
    return [_kept(hub_texts(str(entry), hub_documents))]


def _path_sources(path: Path) -> list[Source]:
    if path.is_dir():
        files = sorted(_folder_files(path), key=lambda file: file.relative_to(path).as_posix())
        if not files:
            raise UserError(f"{path}: no text in this folder; it needs {_readable()} files")
        return [partial(file_texts, file) for file in files]
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; check the path")
    return [partial(file_texts, path) if path.is_file() else _kept(file_texts(path))]


def _kept(texts: Iterable[tuple[str, bytes]]) -> Source:
    kept = list(texts)
    return lambda: kept


def _folder_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__pycache__"]
        paths = (Path(folder, file) for file in files if not file.startswith("."))
        yield from (path for path in paths if is_text(path) and path.stat().st_size > 0)


def _readable() -> str:
    suffixes = ", ".join([*sorted(TEXT_SUFFIXES), PARQUET])
    return f"{suffixes} (and, but for the last, {' or '.join(sorted(COMPRESSED))} behind it)"


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
    train, held_out = _slice_side(documents, text, 0, cut), _slice_side(documents, text, cut, len(text))
    return Split(train, held_out, share, corpus_digest([document]))


def _slice_side(documents: Iterable[Document], text: bytes, begin: int, end: int) -> Side:
    tally = _Tally()
    tally.add(text[begin:end], _sha256(text[begin:end]))
    return tally.side(documents, operator.itemgetter(slice(begin, end)))
