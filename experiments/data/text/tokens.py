"""Token ids on disk: written once for each corpus, tokenizer and split, then mapped into memory."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt

from leadline.experiments.data.text.encoding import chunks_of, encoded, replacing, workers
from leadline.experiments.data.text.split import Split
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer

# Part of every digest: raise it whenever the same corpus would be written differently.
FORMAT = 1
SIDES = ("train", "held_out")
READ_AT_ONCE = 1 << 20

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class TokenFiles:
    """Ids of both sides, mapped read-only.

    Attributes:
        train, held_out: the ids, EOS after each document.
        train_bytes, held_out_bytes: of their text, EOS apart.
        train_documents, held_out_documents: how many there are.
        digest: of all that decides the ids.
    """

    train: UInt[np.ndarray, "train"]
    held_out: UInt[np.ndarray, "held_out"]
    train_bytes: int
    held_out_bytes: int
    train_documents: int
    held_out_documents: int
    digest: str


@dataclass(frozen=True)
class _Place:
    """Where the tokens of one digest lie."""

    folder: Path
    digest: str

    @property
    def paths(self) -> dict[str, Path]:
        return {side: self.folder / f"tokens-{self.digest[:16]}-{side}.bin" for side in SIDES}

    @property
    def sidecar(self) -> Path:
        return self.folder / f"tokens-{self.digest[:16]}.json"

    @property
    def parts(self) -> Path:
        """The folder of what a run has encoded that is not at its end."""
        return self.folder / f".tokens-{self.digest}.parts"


def end_of_document(tokenizer: Tokenizer) -> int:
    """EOS. UserError where the tokenizer has none."""
    if tokenizer.specials.eos is None:
        raise UserError(f"tokenizer {tokenizer.name} has no EOS to end documents with; choose one that has")
    return tokenizer.specials.eos


def token_files(
    divided: Split,
    tokenizer: Tokenizer,
    folder: Path,
    report: Report | None = None,
    *,
    in_processes: bool = False,
) -> TokenFiles:
    """The tokens of a corpus, EOS after each document, from `folder` if it holds them and written there if not.

    Ids are little-endian uint16, or uint32 for a vocabulary above 65536, without header: any reader of flat arrays can
    use them. A JSON file beside them, written last, has their sizes and SHA-256; both are compared on opening, and files
    that do not agree are written again. Each file appears whole or not at all, so processes may share the folder. A run
    that dies leaves what it had encoded in a folder of parts, which the next run reads and removes.

    Args:
        divided: the corpus, whose documents are written in its order.
        tokenizer: its `encode_batch` may be called from two threads at once, unless `in_processes`.
        folder: of the token files; created if need be.
        report: called with the bytes of text encoded so far, 0 at first, and the bytes of all text; never if the files exist.
        in_processes: for a tokenizer that uses one core: encode much text in one process per core.

    Raises:
        UserError: when the tokenizer has no EOS, the folder cannot be written, or the corpus can no longer be read or has
            changed since it was divided.
    """
    end_of_document(tokenizer)
    text_bytes = {"train": divided.train.bytes, "held_out": divided.held_out.bytes}
    dtype = np.dtype("<u2" if tokenizer.vocabulary_size <= 2**16 else "<u4")
    digest = _digest(divided, tokenizer)
    header = {"format": FORMAT, "digest": digest, "tokenizer": tokenizer.name, "dtype": dtype.name, "bytes": text_bytes}
    place = _Place(folder, digest)
    if not _intact(place, header):
        _encode(place, header, divided, tokenizer, report, in_processes)
        if not _intact(place, header):
            raise UserError(f"{folder}: the tokens just written do not read back as written; check the disk")
    shutil.rmtree(place.parts, ignore_errors=True)  # of this run, or of one that was killed at its end
    train, held_out = (np.memmap(place.paths[side], dtype, "r") for side in SIDES)
    documents = len(divided.train), len(divided.held_out)
    return TokenFiles(train, held_out, text_bytes["train"], text_bytes["held_out"], *documents, digest)


def _digest(divided: Split, tokenizer: Tokenizer) -> str:
    parts = [FORMAT, divided.digest, tokenizer.digest(), float(divided.share)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _intact(place: _Place, header: dict[str, Any]) -> bool:
    """Whether the files are there and are, byte for byte, what the sidecar says was written under this header."""
    try:
        written = json.loads(place.sidecar.read_bytes())
        sums = {side: _file_sum(path) for side, path in place.paths.items()}
    except (OSError, ValueError, RecursionError):  # a damaged sidecar may nest without end
        return False
    return written == header | sums


def _file_sum(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            digest.update(block)
        return {"size": file.tell(), "sha256": digest.hexdigest()}


def _encode(
    place: _Place,
    header: dict[str, Any],
    divided: Split,
    tokenizer: Tokenizer,
    report: Report | None,
    in_processes: bool,
) -> None:
    sums: dict[str, Any] = {}
    dtype = np.dtype(header["dtype"]).newbyteorder("<")
    done, size = 0, sum(header["bytes"].values())
    if report is not None:
        report(0, size)
    try:
        # The files take their names together, when all is encoded.
        with workers(size, in_processes=in_processes) as pool, ExitStack() as files:
            for (side, path), chosen in zip(place.paths.items(), (divided.train, divided.held_out), strict=True):
                blocks = encoded(chunks_of(chosen, len(chosen), place.parts, side), tokenizer, dtype, pool)
                sums[side] = _write(files.enter_context(replacing(path, place.parts)), _told(blocks, report, done, size))
                done += header["bytes"][side]
        with replacing(place.sidecar, place.parts) as file:
            file.write(json.dumps(header | sums, indent=2).encode() + b"\n")
    except OSError as error:
        if _intact(place, header):  # another process was quicker, and removed the folder of the parts
            return
        raise UserError(
            f"{place.folder}: tokens cannot be written ({error.strerror}); choose another folder, or make room in this one"
        ) from error
    finally:
        with suppress(OSError):  # there are parts in it
            place.parts.rmdir()


def _write(file: BinaryIO, blocks: Iterator[bytes]) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    for block in blocks:
        digest.update(block)
        size += file.write(block)
    return {"size": size, "sha256": digest.hexdigest()}


def _told(blocks: Iterator[tuple[int, bytes]], report: Report | None, done: int, size: int) -> Iterator[bytes]:
    """The blocks; `report` hears of each when it is written."""
    for text_bytes, block in blocks:
        yield block
        done += text_bytes
        if report is not None:
            report(done, size)
