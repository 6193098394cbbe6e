"""Documents: where text comes from, how it is divided into training and held-out text, and its digest.

A document's text is bytes in valid UTF-8, kept as they are on disk: no newline or Unicode form is changed.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from experiments.data.formats import COMPRESSED, PARQUET, TEXT_SUFFIXES, file_texts, first_invalid, is_text
from experiments.data.hub import PREFIX, hub_texts
from experiments.errors import UserError

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


@dataclass(frozen=True)
class Split:
    """Training and held-out documents, each in the order of the corpus."""

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]


def stdlib_documents() -> list[Document]:
    """The running Python's standard library and its documentation: text that is there wherever leadline is.

    The sources (*.py, sorted by their path) without test suites, installed packages and files that belong to one build;
    empty files and files that are not UTF-8 are left out. Then the documentation of the language, one document a topic.
    The corpus depends on the version of Python and on who packaged it, which its digest shows.

    Raises UserError when Python came without sources.
    """
    root = Path(sysconfig.get_path("stdlib"))
    documents = []
    for path in sorted(_stdlib_sources(root), key=lambda path: path.relative_to(root).as_posix()):
        text = path.read_bytes()
        if text and first_invalid(text) is None:
            documents.append(Document(path.relative_to(root).as_posix(), text))
    if not documents:
        raise UserError(f"this Python has no sources of its standard library in {root}; name text files instead")
    return documents + [Document(f"{TOPICS}/{name}", topics[name].encode()) for name in sorted(topics)]


def text_documents(entries: Sequence[str | Path], hub_documents: int | None = None) -> list[Document]:
    """The documents of files, folders and data sets of the Hub, in the order given.

    A folder gives its *.txt, *.md, *.rst, *.py and *.jsonl files, those with .gz or .zst behind, and its *.parquet, at any
    depth, sorted by path; hidden and empty ones are left out. What a file gives is told by experiments.data.formats, and
    what an entry that begins with "hub:" gives, at most `hub_documents` of its documents, by experiments.data.hub.

    Raises UserError for a path that does not exist or cannot be read, a folder without text, a data set without
    `hub_documents`, and what those two refuse.
    """
    documents = [document for entry in entries for document in _entry_documents(entry, hub_documents)]
    if not documents:
        raise UserError("no text was named; name at least one file or folder")
    return documents


def split(documents: Sequence[Document], held_out_share: float = 0.05) -> Split:
    """Divides by document: one is held out when a keyed SHA-256 of its text, as a number in [0, 1), is below the share.

    So a document's side depends on its text alone, not on order, names or other documents, and copies of one text never
    lie on both sides. The share holds on average. A single document is divided by position: its last `held_out_share`
    of bytes, from the next whole character on, is held out.

    Raises UserError when the share is not between 0 and 1 or a side would be empty.
    """
    if not 0.0 < held_out_share < 1.0:
        raise UserError(f"the held-out share is {held_out_share}; it must lie between 0 and 1")
    if not documents:
        raise UserError("there are no documents to divide; name some text")
    if len(documents) == 1:
        return _split_by_position(documents[0], held_out_share)
    places = [_place(document) for document in documents]
    if not min(places) < held_out_share <= max(places):
        raise UserError(_one_sided(places, held_out_share))
    pairs = list(zip(documents, places, strict=True))
    return Split(
        tuple(document for document, place in pairs if place >= held_out_share),
        tuple(document for document, place in pairs if place < held_out_share),
    )


def corpus_digest(documents: Sequence[Document]) -> str:
    """SHA-256, in hexadecimal, of the texts in their order. Names do not count: they change no number."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(hashlib.sha256(document.text).digest())
    return digest.hexdigest()


def _stdlib_sources(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith(SKIPPED_FOLDER_PREFIX)]
        for file in files:
            path = Path(folder, file)
            ours = file.endswith(".py") and file not in SKIPPED_FILES and not file.startswith(SKIPPED_FILE_PREFIX)
            if ours and path != root / f"{TOPICS}.py":
                yield path


def _entry_documents(entry: str | Path, hub_documents: int | None) -> list[Document]:
    if not str(entry).startswith(PREFIX):
        return _path_documents(Path(entry))
    if hub_documents is None:
        raise UserError(f"{entry}: the stream of a data set may have no end: say in data.hub_documents how many to read")
    return [Document(name, text) for name, text in hub_texts(str(entry), hub_documents)]


def _path_documents(path: Path) -> list[Document]:
    if path.is_dir():
        files = sorted(_folder_files(path), key=lambda file: file.relative_to(path).as_posix())
        documents = [document for file in files for document in _file_documents(file)]
        if not documents:
            raise UserError(f"{path}: no text in this folder; it needs {_readable()} files")
        return documents
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; check the path")
    return _file_documents(path)


def _folder_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__pycache__"]
        paths = (Path(folder, file) for file in files if not file.startswith("."))
        yield from (path for path in paths if is_text(path) and path.stat().st_size > 0)


def _readable() -> str:
    suffixes = ", ".join([*sorted(TEXT_SUFFIXES), PARQUET])
    return f"{suffixes} (and, but for the last, {' or '.join(sorted(COMPRESSED))} behind it)"


def _file_documents(path: Path) -> list[Document]:
    return [Document(name, text) for name, text in file_texts(path)]


def _place(document: Document) -> float:
    """A number in [0, 1) from the first 53 bits of the keyed hash, which a float64 holds exactly."""
    bits = hashlib.sha256(SPLIT_KEY + hashlib.sha256(document.text).digest()).digest()
    return (int.from_bytes(bits[:8], "big") >> 11) * 2.0**-53


def _one_sided(places: list[float], share: float) -> str:
    """Which side is empty, and the nearest share, to four digits, that would fill it."""
    side = "training" if max(places) < share else "held-out"
    found = f"the {side} text is empty: none of the {len(places)} documents falls on that side at a share of {share}"
    # The share that fills both sides lies above the smallest place and at or below the largest.
    remedy = int(min(places) * 1e4 + 1) / 1e4 if side == "held-out" else int(max(places) * 1e4) / 1e4
    if not min(places) < remedy <= max(places):
        return f"{found}; add documents, or join them into one file, which is divided by position"
    return f"{found}; a held-out share of {remedy:g} would do, or more documents, or all of them in one file"


def _split_by_position(document: Document, share: float) -> Split:
    text = document.text
    cut = len(text) - max(1, round(len(text) * share))
    # Bytes 10xxxxxx continue a character of UTF-8.
    while 0 < cut < len(text) and text[cut] & 0xC0 == 0x80:
        cut += 1
    if not 0 < cut < len(text):
        raise UserError(f"{document.name}: {len(text)} bytes are too short to divide at a share of {share}; add text")
    return Split((Document(document.name, text[:cut]),), (Document(document.name, text[cut:]),))
