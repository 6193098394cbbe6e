"""Token ids on disk: written once for each corpus, tokenizer and split, then mapped into memory."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt

from experiments.data.corpus import Document, corpus_digest, split
from experiments.errors import UserError
from tokenization.tokenizer import Tokenizer

# Part of every digest: raise it whenever the same corpus would be written differently.
FORMAT = 1
SIDES = ("train", "held_out")
DOCUMENTS_AT_ONCE = 256
READ_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class TokenFiles:
    """Ids of both sides, mapped read-only; the bytes of their text, EOS apart; the digest of all that decides them."""

    train: UInt[np.ndarray, "train"]
    held_out: UInt[np.ndarray, "held_out"]
    train_bytes: int
    held_out_bytes: int
    digest: str


def token_files(
    documents: Sequence[Document], tokenizer: Tokenizer, folder: Path, held_out_share: float = 0.05
) -> TokenFiles:
    """The tokens of a corpus, EOS after each document, from `folder` if it holds them and written there if not.

    Ids are little-endian uint16, or uint32 for a vocabulary above 65536, without header: any reader of flat arrays can
    use them. A JSON file beside them, written last, has their sizes and SHA-256; both are compared on opening, and what
    does not agree is written again. Each file appears whole or not at all, so processes may share the folder.

    Raises UserError when the corpus cannot be divided, the tokenizer has no EOS or the folder cannot be written.
    """
    if tokenizer.specials.eos is None:
        raise UserError(f"tokenizer {tokenizer.name} has no EOS to end documents with; choose one that has")
    digest = _digest(documents, tokenizer, held_out_share)
    dtype = np.dtype("<u2" if tokenizer.vocabulary_size <= 2**16 else "<u4")
    found = _open(folder, digest, dtype)
    if found is not None:
        return found
    try:
        _write(documents, tokenizer, held_out_share, folder, digest, dtype)
    except OSError as error:
        raise UserError(f"{folder}: tokens cannot be written ({error.strerror}); choose another folder") from error
    written = _open(folder, digest, dtype)
    if written is None:
        raise UserError(f"{folder}: the tokens just written do not read back as written; check the disk")
    return written


def _digest(documents: Sequence[Document], tokenizer: Tokenizer, held_out_share: float) -> str:
    parts = [FORMAT, corpus_digest(documents), tokenizer.digest(), float(held_out_share)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _paths(folder: Path, digest: str) -> dict[str, Path]:
    stem = f"tokens-{digest[:16]}"
    return {"meta": folder / f"{stem}.json"} | {side: folder / f"{stem}-{side}.bin" for side in SIDES}


def _open(folder: Path, digest: str, dtype: np.dtype) -> TokenFiles | None:
    """What the folder holds under this digest, or None when it is missing, cut short or altered."""
    paths = _paths(folder, digest)
    try:
        meta = json.loads(paths["meta"].read_bytes())
        sums = {side: _file_sum(paths[side]) for side in SIDES}
    except (OSError, ValueError):
        return None
    if not isinstance(meta, dict) or meta.get("digest") != digest:
        return None
    sides: dict[str, Any] = {side: meta.get(side) for side in SIDES}
    for side, (size, sha256) in sums.items():
        expected = sides[side]
        if not isinstance(expected, dict) or (expected.get("size"), expected.get("sha256")) != (size, sha256):
            return None
    train, held_out = (np.memmap(paths[side], dtype, "r") for side in SIDES)
    return TokenFiles(train, held_out, sides["train"]["text_bytes"], sides["held_out"]["text_bytes"], digest)


def _file_sum(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            digest.update(block)
        return file.tell(), digest.hexdigest()


def _write(
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    held_out_share: float,
    folder: Path,
    digest: str,
    dtype: np.dtype,
) -> None:
    divided = split(documents, held_out_share)
    folder.mkdir(parents=True, exist_ok=True)
    paths = _paths(folder, digest)
    meta: dict[str, Any] = {"format": FORMAT, "digest": digest, "tokenizer": tokenizer.name, "dtype": dtype.name}
    for side, chosen in zip(SIDES, (divided.train, divided.held_out), strict=True):
        sha256, size = hashlib.sha256(), 0
        with _replacing(paths[side]) as file:
            for block in _blocks(chosen, tokenizer, dtype):
                sha256.update(block)
                size += file.write(block)
        text_bytes = sum(len(document.text) for document in chosen)
        tokens = size // dtype.itemsize
        meta[side] = {"tokens": tokens, "size": size, "sha256": sha256.hexdigest(), "text_bytes": text_bytes}
    with _replacing(paths["meta"]) as file:
        file.write(json.dumps(meta, indent=2).encode() + b"\n")


def _blocks(documents: Sequence[Document], tokenizer: Tokenizer, dtype: np.dtype) -> Iterator[bytes]:
    """The ids of each document and EOS, as they stand on disk."""
    eos = np.array([tokenizer.specials.eos], dtype).tobytes()
    for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
        for ids in tokenizer.encode_batch([document.text for document in documents[start : start + DOCUMENTS_AT_ONCE]]):
            yield ids.astype(dtype).tobytes() + eos


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name only once it is complete and on disk; of two writers the later wins, unmixed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
