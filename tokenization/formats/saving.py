"""A tokenizer in a folder: its definition, and a manifest with the digests that it is checked against."""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import CharacterTokenizer
from leadline.tokenization.formats.published import PublishedTokenizer
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.word import WordTokenizer
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer

FORMAT = 1
DEFINITION, MANIFEST = "definition.json", "manifest.json"
STALE = 60.0  # seconds after which a temporary file is one of a process that was killed
CLASSES = {
    "byte": ByteTokenizer,
    "character": CharacterTokenizer,
    "word": WordTokenizer,
    "bpe": BpeTokenizer,
    "wordpiece": WordPieceTokenizer,
    "unigram": UnigramTokenizer,
    "sentencepiece": SentencePieceTokenizer,
    "ranks": RankTokenizer,
    "published": PublishedTokenizer,
}


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes a tokenizer to a folder, which is created where it is missing. Each file appears whole or not at all.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    definition = _json(tokenizer.definition())
    (folder / MANIFEST).unlink(missing_ok=True)
    _replace(folder / DEFINITION, definition)
    sums = {DEFINITION: hashlib.sha256(definition).hexdigest()}
    _replace(folder / MANIFEST, _json({"format": FORMAT, "digest": tokenizer.digest(), "files": sums}))
    for stray in folder.glob(".*.part"):
        with suppress(FileNotFoundError):  # another process has removed it
            if time.time() - stray.stat().st_mtime > STALE:
                stray.unlink()


def load(folder: Path) -> Tokenizer:
    """Loads the tokenizer that `save` wrote.

    Raises:
        ValueError: The folder holds no tokenizer, a file is not as it was written, or the format or kind is unknown.
    """
    manifest = _read(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder}: format {manifest.get('format')} is not {FORMAT}, the only one known; upgrade leadline")
    match manifest:
        case {"digest": str(digest), "files": {"definition.json": str(checksum)}}:
            pass
        case _:
            raise ValueError(f"{folder / MANIFEST}: a digest is missing; restore the file, or train the tokenizer again")
    if _sum(folder / DEFINITION) != checksum:
        raise ValueError(f"{folder / DEFINITION}: not the file that was written; restore it, or train the tokenizer again")
    try:
        tokenizer = of_definition(_read(folder / DEFINITION))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / DEFINITION}: not the definition of a tokenizer ({error!r}); train it again") from error
    if tokenizer.digest() != digest:
        raise ValueError(f"{folder}: this version would give other ids than the one that saved it; use that version")
    return tokenizer


def of_definition(definition: dict[str, Any]) -> Tokenizer:
    """Rebuilds the tokenizer of a definition.

    Raises:
        ValueError: The kind is unknown, or its class refuses the definition.
    """
    kind = definition.get("kind", definition.get("name"))
    if not isinstance(kind, str) or kind not in CLASSES:
        raise ValueError(f"{kind!r} is not a known kind of tokenizer; upgrade leadline")
    return CLASSES[kind].from_definition(definition)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path.parent}: no tokenizer is saved there ({path.name}: {error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error}); restore it, or train the tokenizer again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not an object; restore it, or train the tokenizer again")
    return content


def _sum(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
