"""Documents: where text comes from, how it is divided into training and held-out text, and its digest.

A document's text is bytes in valid UTF-8, kept as they are on disk: no newline or Unicode form is changed.
"""

import hashlib
import json
import os
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from experiments.errors import UserError

# What is taken from a folder. A file that is named itself is read whatever its suffix.
TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".py", ".jsonl"})

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
        if text and _first_invalid(text) is None:
            documents.append(Document(path.relative_to(root).as_posix(), text))
    if not documents:
        raise UserError(f"this Python has no sources of its standard library in {root}; name text files instead")
    return documents + [Document(f"{TOPICS}/{name}", topics[name].encode()) for name in sorted(topics)]


def text_documents(paths: Sequence[str | Path]) -> list[Document]:
    """The documents of files and folders, in the order given.

    A folder gives its *.txt, *.md, *.rst, *.py and *.jsonl files at any depth, sorted by path; hidden and empty ones
    are left out. A .jsonl file is one document a line, an object whose "text" is a string that is not empty; any other
    file is one document.

    Raises UserError for a path that does not exist or cannot be read, a file that is empty or not UTF-8 (naming the
    byte), a folder without text, and a line of JSONL without text (naming the line).
    """
    documents = [document for path in paths for document in _path_documents(Path(path))]
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


def _path_documents(path: Path) -> list[Document]:
    if path.is_dir():
        files = sorted(_folder_files(path), key=lambda file: file.relative_to(path).as_posix())
        documents = [document for file in files for document in _file_documents(file)]
        if not documents:
            raise UserError(f"{path}: no text in this folder; it needs {', '.join(sorted(TEXT_SUFFIXES))} files")
        return documents
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; check the path")
    return _file_documents(path)


def _folder_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "__pycache__"]
        paths = (Path(folder, file) for file in files if not file.startswith("."))
        yield from (path for path in paths if path.suffix.lower() in TEXT_SUFFIXES and path.stat().st_size > 0)


def _file_documents(path: Path) -> list[Document]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if not text:
        raise UserError(f"{path}: the file is empty (0 bytes, end of file at byte 0); remove it or put text into it")
    offset = _first_invalid(text)
    if offset is not None:
        raise UserError(f"{path}: not UTF-8 at byte {offset} (0x{text[offset]:02x}); convert the file to UTF-8")
    if path.suffix.lower() == ".jsonl":
        return _jsonl_documents(path, text)
    return [Document(str(path), text)]


def _first_invalid(text: bytes) -> int | None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _jsonl_documents(path: Path, text: bytes) -> list[Document]:
    lines = [(number, line) for number, line in enumerate(text.split(b"\n"), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path}: no line holds a document; each needs an object with a text")
    return [Document(f"{path}:{number}", _line_text(f"{path}, line {number}", line)) for number, line in lines]


def _line_text(where: str, line: bytes) -> bytes:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); each line must be one object") from error
    found = value.get("text") if isinstance(value, dict) else None
    if not isinstance(found, str) or not found:
        raise UserError(f'{where}: no "text" with a string that is not empty; each line must be {{"text": "…"}}')
    try:
        return found.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f'{where}: character {error.start} of "text" is a lone surrogate; remove it') from error


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
