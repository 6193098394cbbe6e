"""Files that hold text: plain or compressed, and one document a file, a line (JSONL) or a row (Parquet).

Text is bytes in valid UTF-8, kept as they are in the file.
"""

import gzip
import importlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from experiments.errors import UserError

# What is taken from a folder, compressed or not. A file that is named itself is read whatever its suffix.
TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".py", ".jsonl"})
COMPRESSED = frozenset({".gz", ".zst"})
PARQUET = ".parquet"

FED_AT_ONCE = 1 << 20
# The window of `zstd --long=31`, its largest; without it a file made with more than --long=27 is refused.
LARGEST_WINDOW = 1 << 31


def is_text(path: PurePath) -> bool:
    """Whether a folder's file of this name is read."""
    return inner_suffix(path) in TEXT_SUFFIXES or path.suffix.lower() == PARQUET


def inner_suffix(path: PurePath) -> str:
    """The suffix in lower case, of what is inside where the file is compressed: ".py" of a.PY.gz."""
    suffix = path.suffix.lower()
    return PurePath(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def file_texts(path: Path) -> list[tuple[str, bytes]]:
    """The documents of one file, each a name for messages and a text that is not empty.

    A .gz or .zst file is what it is when unpacked. A line of .jsonl is an object whose "text" is a string that is not
    empty. A row of .parquet is a document by its string column "text"; rows without text are left out, as data sets have
    many. Any other file is one document.

    Raises UserError for a file that cannot be read or unpacked, is empty or not UTF-8 (naming the byte), a line of JSONL
    without text (naming the line), Parquet without that column (naming those it has), and a package that is not there.
    """
    if path.suffix.lower() == PARQUET:
        return _parquet_texts(path)
    text = _unpacked(path)
    offset = first_invalid(text)
    if offset is not None:
        raise UserError(f"{path}: not UTF-8 at byte {offset} (0x{text[offset]:02x}); convert the file to UTF-8")
    if inner_suffix(path) == ".jsonl":
        return _jsonl_texts(path, text)
    return [(str(path), text)]


def first_invalid(text: bytes) -> int | None:
    """Where the bytes stop being UTF-8; None where all of them are."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def needed_package(name: str, what: str) -> Any:
    """A package of the extra `corpora`. UserError that says how to get it where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UserError(f"{what} needs the package {package} ({error}); pip install '.[corpora]'") from error


def _unpacked(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if not raw:
        raise UserError(f"{path}: the file is empty (0 bytes, end of file at byte 0); remove it or put text into it")
    match path.suffix.lower():
        case ".gz":
            text = _ungzipped(path, raw)
        case ".zst":
            text = _unzstd(path, raw)
        case _:
            return raw
    if not text:
        raise UserError(f"{path}: nothing is in it when unpacked; remove it or put text into it")
    return text


def _ungzipped(path: Path, raw: bytes) -> bytes:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(_damaged(path, "gzip", error)) from error


def _unzstd(path: Path, raw: bytes) -> bytes:
    """All frames of a file. A decompressor says nothing of a frame that stops in the middle: its end is looked for."""
    zstandard = needed_package("zstandard", str(path))
    decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
    texts, frame = [], None
    try:
        for start in range(0, len(raw), FED_AT_ONCE):
            rest = raw[start : start + FED_AT_ONCE]
            while rest:
                frame = frame or decompressor.decompressobj()
                texts.append(frame.decompress(rest))
                frame, rest = (None, frame.unused_data) if frame.eof else (frame, b"")
    except zstandard.ZstdError as error:
        raise UserError(_damaged(path, "Zstandard", error)) from error
    if frame is not None:
        raise UserError(_damaged(path, "Zstandard", "it ends in the middle of a frame"))
    return b"".join(texts)


def _damaged(path: Path, kind: str, why: object) -> str:
    return f"{path}: no whole {kind} file ({why}); it is cut off or damaged: fetch or pack it again"


def _jsonl_texts(path: Path, text: bytes) -> list[tuple[str, bytes]]:
    lines = [(number, line) for number, line in enumerate(text.split(b"\n"), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path}: no line holds a document; each needs an object with a text")
    return [(f"{path}:{number}", _line_text(f"{path}, line {number}", line)) for number, line in lines]


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


def _parquet_texts(path: Path) -> list[tuple[str, bytes]]:
    arrow, parquet = (needed_package(name, str(path)) for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _check_column(path, file.schema_arrow, arrow)
            texts = [(f"{path}:{row}", text) for row, text in enumerate(_rows(file, arrow), start=1) if text]
    except (OSError, arrow.ArrowException) as error:
        raise UserError(_damaged(path, "Parquet", str(error).partition("\n")[0])) from error
    if not texts:
        raise UserError(f'{path}: no row has text in its column "text"; remove the file')
    for name, text in texts:
        offset = first_invalid(text)
        if offset is not None:
            raise UserError(f"{name}: not UTF-8 at byte {offset} (0x{text[offset]:02x}) of this row; convert it to UTF-8")
    return texts


def _check_column(path: Path, schema: Any, arrow: Any) -> None:
    if schema.names.count("text") != 1:
        columns = ", ".join(map(repr, schema.names)) or "none at all"
        raise UserError(f'{path}: no column "text"; its columns are {columns}: rename the one that holds the text')
    found = schema.field("text").type
    if not (arrow.types.is_string(found) or arrow.types.is_large_string(found)):
        raise UserError(f'{path}: the column "text" is of type {found}; it must be string')


def _rows(file: Any, arrow: Any) -> Iterator[bytes | None]:
    """As bytes: Parquet promises UTF-8 and does not check it."""
    for batch in file.iter_batches(columns=["text"]):
        yield from batch.column("text").cast(arrow.large_binary()).to_pylist()
