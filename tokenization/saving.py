"""A tokenizer as one folder: its definition, and a manifest whose sums say whether it is whole."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tokenization.bpe import BpeTokenizer
from tokenization.byte import ByteTokenizer
from tokenization.character import CharacterTokenizer
from tokenization.ranks import RankTokenizer
from tokenization.sentencepiece_model import SentencePieceTokenizer
from tokenization.tokenizer import Tokenizer
from tokenization.unigram import UnigramTokenizer
from tokenization.word import WordTokenizer
from tokenization.wordpiece import WordPieceTokenizer

FORMAT = 1
DEFINITION, MANIFEST = "definition.json", "manifest.json"


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the definition, then the manifest with its SHA-256 and the tokenizer's digest, each whole or not at all.

    The folder is made where it is missing; what another tokenizer left there is replaced. Raises OSError when the disk
    refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    definition = _json(tokenizer.definition())
    (folder / MANIFEST).unlink(missing_ok=True)
    _replace(folder / DEFINITION, definition)
    sums = {DEFINITION: hashlib.sha256(definition).hexdigest()}
    _replace(folder / MANIFEST, _json({"format": FORMAT, "digest": tokenizer.digest(), "files": sums}))


def load(folder: Path) -> Tokenizer:
    """The tokenizer that `save` wrote.

    Raises ValueError for a folder without one, a file that is not as it was written, and a format or kind that is not known.
    """
    manifest = _read(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder}: format {manifest.get('format')} is not {FORMAT}, the one known here; upgrade leadline")
    if _sum(folder / DEFINITION) != manifest.get("files", {}).get(DEFINITION):
        raise ValueError(f"{folder / DEFINITION}: not the file that was written; restore it, or train the tokenizer again")
    tokenizer = of_definition(_read(folder / DEFINITION))
    if tokenizer.digest() != manifest["digest"]:
        raise ValueError(f"{folder}: this version would give other ids than the one that saved it; use that one")
    return tokenizer


def of_definition(definition: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a definition. Raises ValueError for a kind that is not known."""
    match definition.get("kind", definition.get("name")):
        case "byte":
            return ByteTokenizer()
        case "character":
            return CharacterTokenizer.from_definition(definition)
        case "word":
            return WordTokenizer.from_definition(definition)
        case "bpe":
            return BpeTokenizer.from_definition(definition)
        case "wordpiece":
            return WordPieceTokenizer.from_definition(definition)
        case "unigram":
            return UnigramTokenizer.from_definition(definition)
        case "sentencepiece":
            return SentencePieceTokenizer.from_definition(definition)
        case "ranks":
            return RankTokenizer.from_definition(definition)
        case kind:
            raise ValueError(f"{kind!r} is no kind of tokenizer that is known here; upgrade leadline")


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path.parent}: no tokenizer is saved there ({path.name}: {error.strerror})") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); restore it, or train the tokenizer again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not an object; restore it, or train the tokenizer again")
    return content


def _sum(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
