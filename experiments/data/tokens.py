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


def token_files(documents: Sequence[Document], tokenizer: Tokenizer, folder: Path, held_out_share: float = 0.05) -> TokenFiles:
    """The tokens of a corpus, EOS after each document, from `folder` if it holds them and written there if not.

    Ids are little-endian uint16, or uint32 for a vocabulary above 65536, without header: any reader of flat arrays can
    use them. A JSON file beside them, written last, has their sizes and SHA-256; both are compared on opening, and what
    does not agree is written again. Each file appears whole or not at all, so processes may share the folder.

    Raises UserError when the corpus cannot be divided, the tokenizer has no EOS or the folder cannot be written.
    """
    if tokenizer.specials.eos is None:
        raise UserError(f"tokenizer {tokenizer.name} has no EOS to end documents with; choose one that has")
    divided = split(documents, held_out_share)
    sides = dict(zip(SIDES, (divided.train, divided.held_out), strict=True))
    text_bytes = {side: sum(len(document.text) for document in chosen) for side, chosen in sides.items()}
    dtype = np.dtype("<u2" if tokenizer.vocabulary_size <= 2**16 else "<u4")
    digest = _digest(documents, tokenizer, held_out_share)
    header = {"format": FORMAT, "digest": digest, "tokenizer": tokenizer.name, "dtype": dtype.name, "bytes": text_bytes}
    paths = {side: folder / f"tokens-{digest[:16]}-{side}.bin" for side in SIDES}
    sidecar = folder / f"tokens-{digest[:16]}.json"
    if not _intact(sidecar, paths, header):
        try:
            _write(sidecar, paths, header, {side: _blocks(chosen, tokenizer, dtype) for side, chosen in sides.items()})
        except OSError as error:
            raise UserError(f"{folder}: tokens cannot be written ({error.strerror}); choose another folder") from error
        if not _intact(sidecar, paths, header):
            raise UserError(f"{folder}: the tokens just written do not read back as written; check the disk")
    train, held_out = (np.memmap(paths[side], dtype, "r") for side in SIDES)
    return TokenFiles(train, held_out, text_bytes["train"], text_bytes["held_out"], digest)


def _digest(documents: Sequence[Document], tokenizer: Tokenizer, held_out_share: float) -> str:
    parts = [FORMAT, corpus_digest(documents), tokenizer.digest(), float(held_out_share)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _intact(sidecar: Path, paths: dict[str, Path], header: dict[str, Any]) -> bool:
    """Whether the files are there and are, byte for byte, what the sidecar says was written under this header."""
    try:
        written = json.loads(sidecar.read_bytes())
        found = {side: _file_sum(path) for side, path in paths.items()}
    except (OSError, ValueError):
        return False
    return written == header | found


def _file_sum(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            digest.update(block)
        return {"size": file.tell(), "sha256": digest.hexdigest()}


def _write(sidecar: Path, paths: dict[str, Path], header: dict[str, Any], blocks: dict[str, Iterator[bytes]]) -> None:
    sidecar.parent.mkdir(parents=True, exist_ok=True)
    sums: dict[str, Any] = {}
    for side, path in paths.items():
        digest, size = hashlib.sha256(), 0
        with _replacing(path) as file:
            for block in blocks[side]:
                digest.update(block)
                size += file.write(block)
        sums[side] = {"size": size, "sha256": digest.hexdigest()}
    with _replacing(sidecar) as file:
        file.write(json.dumps(header | sums, indent=2).encode() + b"\n")


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
