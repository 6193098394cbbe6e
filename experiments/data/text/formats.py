"""Files that hold text: plain or compressed, and one document a file, a line (JSONL) or a row (Parquet).

Text is bytes in valid UTF-8, kept as they are in the file. Files are read from their beginning on, a document at a time.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

# What is taken from a folder, compressed or not. A file that is named itself is read whatever its suffix.
TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".py", ".jsonl"})
COMPRESSED = frozenset({".gz", ".zst"})
PARQUET = ".parquet"

# Little, for what it unpacks to may be a thousand times as much.
READ_AT_ONCE = 1 << 14
PARQUET_BUFFER = 1 << 16
ROWS_AT_ONCE = 256
# The window of `zstd --long=31`, its largest; without it a file made with more than --long=27 is refused.
LARGEST_WINDOW = 1 << 31
# What makes zlib read the header and the checksum of gzip.
GZIP_WINDOW = 31
# A document is in memory as a whole. A packed file of a megabyte may hold a gigabyte, and a device or a pipe may have no end.
LARGEST_KEPT = 1 << 30


def is_text(path: PurePath) -> bool:
    """Whether a folder's file of this name is read."""
    return inner_suffix(path) in TEXT_SUFFIXES or path.suffix.lower() == PARQUET


def inner_suffix(path: PurePath) -> str:
    """The suffix in lower case, of what is inside where the file is compressed: ".py" of a.PY.gz."""
    suffix = path.suffix.lower()
    return PurePath(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def file_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """The documents of one file, each a name for messages and a text that is not empty.

    A .gz or .zst file is read as the file inside it. A line of .jsonl is an object whose "text" is a string that is not
    empty. A row of .parquet is a document by its string column "text"; rows without text are left out, as data sets have
    many. Any other file is one document.

    Raises:
        UserError: when the iterator reaches it, for a file that cannot be read or unpacked, is empty or not UTF-8 (naming the
            byte), a document above LARGEST_KEPT bytes in a packed file or a pipe, a line of JSONL without text (naming the
            line), Parquet without that column (naming those it has), and a package that is not installed.
    """
    if path.suffix.lower() == PARQUET:
        yield from _parquet_texts(path)
    elif inner_suffix(path) == ".jsonl":
        yield from _jsonl_texts(path)
    else:
        (text,) = _pieces(path, b"")
        yield str(path), _checked(str(path), text)


def first_invalid(text: bytes) -> int | None:
    """Where the bytes stop being UTF-8; None where all of them are."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def _checked(name: str, text: bytes, start: int = 0, whole: str = "") -> bytes:
    """The text. UserError where it is not UTF-8; `start` is where it begins in what `whole` names, the file if nothing."""
    offset = first_invalid(text)
    if offset is not None:
        raise UserError(f"{name}: not UTF-8 at byte {start + offset} (0x{text[offset]:02x}){whole}; convert it to UTF-8")
    return text


def _content(path: Path) -> Iterator[bytes]:
    """What is in the file, unpacked, part by part."""
    match path.suffix.lower():
        case ".gz":
            parts = _unpacked(path, "gzip", lambda: zlib.decompressobj(GZIP_WINDOW), zlib.error, padding=b"\0")
        case ".zst":
            zstandard = needed_package("zstandard", str(path), "corpora")
            begin = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj
            parts = _unpacked(path, "Zstandard", begin, zstandard.ZstdError)
        case _:
            parts = _raw(path)
    empty = True
    for part in filter(None, parts):
        yield part
        empty = False
    if empty:
        raise UserError(f"{path}: nothing is in it when unpacked; remove it or put text into it")


def _raw(path: Path) -> Iterator[bytes]:
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(READ_AT_ONCE):
                yield block
                size += len(block)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if not size:
        raise UserError(f"{path}: the file is empty (0 bytes, end of file at byte 0); remove it or put text into it")


def _unpacked(
    path: Path, kind: str, begin: Callable[[], Any], failure: type[Exception], padding: bytes = b""
) -> Iterator[bytes]:
    """All frames of a file, between which `padding` may be. No library complains of a frame that stops in the middle."""
    frame = None
    try:
        for block in _raw(path):
            rest = block
            while rest := rest if frame else rest.lstrip(padding):
                frame = frame or begin()
                yield frame.decompress(rest)
                frame, rest = (None, frame.unused_data) if frame.eof else (frame, b"")
    except failure as error:
        raise UserError(_damaged(path, kind, error)) from error
    if frame is not None:
        raise UserError(_damaged(path, kind, "it ends in the middle of a frame"))


def _damaged(path: Path, kind: str, why: object) -> str:
    return f"{path}: no whole {kind} file ({why}); it is cut off or damaged: fetch or pack it again"


def _jsonl_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    start, documents = 0, 0
    for number, line in enumerate(_pieces(path, b"\n"), start=1):
        _checked(str(path), line, start)
        start += len(line) + 1
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); each line must be one object") from error
        text = value.get("text") if isinstance(value, dict) else None
        if not isinstance(text, str) or not text:
            raise UserError(f'{where}: no "text" with a string that is not empty; each line must be {{"text": "…"}}')
        yield f"{path}:{number}", utf8(where, text)
        documents += 1
    if not documents:
        raise UserError(f"{path}: no line holds a document; each needs an object with a text")


def _pieces(path: Path, end: bytes) -> Iterator[bytes]:
    """What stands between the ends in a file; all of it where `end` is empty. UserError for too large a packed piece."""
    piece, size = [], 0
    bounded = path.suffix.lower() in COMPRESSED or not path.is_file()
    for part in _content(path):
        first, *others = part.split(end) if end else [part]
        piece.append(first)
        size += len(first)
        if bounded and size > LARGEST_KEPT:
            raise UserError(
                f"{path}: a document in it is larger than {LARGEST_KEPT} bytes; divide it, into lines of JSONL for example"
            )
        for other in others:
            yield b"".join(piece)
            piece, size = [other], len(other)
    yield b"".join(piece)


def utf8(where: str, text: object) -> bytes:
    """A text as bytes. UserError for what is no string, and for a lone surrogate, which JSON can hold and UTF-8 cannot."""
    if not isinstance(text, str):
        raise UserError(f'{where}: "text" is of type {type(text).__name__}; it must be a string')
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f'{where}: character {error.start} of "text" is a lone surrogate; remove it') from error


def _parquet_texts(path: Path) -> Iterator[tuple[str, bytes]]:
    arrow, parquet = (needed_package(name, str(path), "corpora") for name in ("pyarrow", "pyarrow.parquet"))
    documents = 0
    try:
        # Unless it is told so, the library has a whole group of rows in memory.
        streamed = {"pre_buffer": False, "buffer_size": PARQUET_BUFFER}
        with parquet.ParquetFile(path, page_checksum_verification=True, **streamed) as file:
            schema = file.schema_arrow
            if schema.names.count("text") != 1:
                columns = ", ".join(map(repr, schema.names)) or "none at all"
                raise UserError(f'{path}: no column "text"; its columns are {columns}: rename the one that holds the text')
            kind = schema.field("text").type
            if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
                raise UserError(f'{path}: the column "text" is of type {kind}; it must be string')
            batches = file.iter_batches(ROWS_AT_ONCE, columns=["text"])
            # As bytes: Parquet promises UTF-8 and does not check it.
            columns = (batch.column("text").cast(arrow.large_binary()).to_pylist() for batch in batches)
            for row, text in enumerate(chain.from_iterable(columns), start=1):
                if text:
                    yield f"{path}:{row}", _checked(f"{path}:{row}", text, whole=" of this row")
                    documents += 1
    except (OSError, arrow.ArrowException) as error:
        raise UserError(_damaged(path, "Parquet", str(error).partition("\n")[0])) from error
    if not documents:
        raise UserError(f'{path}: no row has text in its column "text"; remove the file')
