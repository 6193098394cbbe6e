"""The bytes that a piece of a tokenizer.json stands for, by the parts of its decoder."""

from collections.abc import Mapping, Sequence
from typing import Any

import regex

from leadline.tokenization.bpe.training import BYTE_ORDER

_BYTE_NAME = regex.compile(r"<0x([0-9A-F]{2})>")


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in byte-level files: itself, or for the last 68 of BYTE_ORDER, from U+0100 on."""
    printed = len(BYTE_ORDER) - 68
    return {byte: chr(byte) if i < printed else chr(0x100 + i - printed) for i, byte in enumerate(BYTE_ORDER)}


BYTE_OF = {character: byte for byte, character in byte_characters().items()}


def parts_of(part: Mapping[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The parts of a normalizer, pre-tokenizer or decoder in their order, with sequences, whose parts are at `key`, opened."""
    if part is None:
        return []
    return [inner for outer in part[key] for inner in parts_of(outer, key)] if part["type"] == "Sequence" else [dict(part)]


def is_byte_level(decoder: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the characters of a piece stand for bytes."""
    return any(part["type"] == "ByteLevel" for part in decoder)


def piece_bytes(spelling: str, decoder: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of a piece.

    Args:
        spelling: The piece as the file has it.
        decoder: The parts of the file's decoder (`parts_of`). What they strip from a whole text is left.

    Raises:
        ValueError: A part is unknown.
    """
    for part in decoder:
        match part:
            case {"type": "ByteLevel"}:
                known = all(character in BYTE_OF for character in spelling)
                return bytes(BYTE_OF[character] for character in spelling) if known else spelling.encode()
            case {"type": "ByteFallback"} if name := _BYTE_NAME.fullmatch(spelling):
                return bytes.fromhex(name[1])
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
                spelling = spelling.replace(old, new)
            case {"type": "Metaspace", "replacement": str(space)}:
                spelling = spelling.replace(space, " ")
            case {"type": "WordPiece", "prefix": str(prefix)}:
                spelling = spelling.removeprefix(prefix) or prefix
            case {"type": "BPEDecoder", "suffix": str(suffix)}:
                spelling = spelling.replace(suffix, " ")
            case {"type": "ByteFallback" | "Fuse" | "Strip"}:
                pass
            case _:
                raise ValueError(f"the decoder has a part whose bytes are not known: {str(part)[:200]}")
    return spelling.encode()
