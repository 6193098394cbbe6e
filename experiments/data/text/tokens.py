"""Token ids on disk: written once for each corpus, tokenizer and split, then mapped into memory."""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt

from leadline.experiments.data.text.encoding import Encoder, chunks_of, encoded, replacing, workers
from leadline.experiments.data.text.split import Split
from leadline.experiments.runtime.errors import UserError

# Part of every digest: raise it whenever the same corpus would be written differently.
FORMAT = 1
SIDES = ("train", "held_out")

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class TokenFiles:
    """Ids of both sides, mapped read-only, EOS after each document."""

    train: UInt[np.ndarray, "train"]
    held_out: UInt[np.ndarray, "held_out"]
    train_documents: int  # how many there are
    held_out_documents: int
    digest: str  # of all that decides the ids


class _Place(NamedTuple):
    """Where the tokens of one digest lie."""

    paths: dict[str, Path]  # by side
    sidecar: Path
    parts: Path  # the folder of what a run has encoded that is not at its end
    header: dict[str, Any]  # of the sidecar, before the sizes and the sums


def end_of_document(tokenizer: Encoder) -> int:
    """EOS. UserError where the tokenizer has none."""
    if tokenizer.specials.eos is None:
        raise UserError(f"tokenizer {tokenizer.name} has no EOS to end documents with; choose one that has")
    return tokenizer.specials.eos


def token_files(
    divided: Split, tokenizer: Encoder, folder: Path, report: Report | None = None, *, in_processes: bool = False
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
    parts = [FORMAT, divided.digest, tokenizer.digest(), float(divided.share)]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    name = f"tokens-{digest[:16]}"
    place = _Place(
        {side: folder / f"{name}-{side}.bin" for side in SIDES},
        folder / f"{name}.json",
        folder / f".tokens-{digest}.parts",
        {"format": FORMAT, "digest": digest, "tokenizer": tokenizer.name, "dtype": dtype.name, "bytes": text_bytes},
    )
    if not _intact(place):
        _encode(place, divided, tokenizer, report or (lambda done, size: None), in_processes)  # noqa: ARG005
        if not _intact(place):
            raise UserError(f"{folder}: the tokens just written do not read back as written; check the disk")
    shutil.rmtree(place.parts, ignore_errors=True)  # of this run, or of one that was killed at its end
    train, held_out = (np.memmap(place.paths[side], dtype, "r") for side in SIDES)
    return TokenFiles(train, held_out, len(divided.train), len(divided.held_out), digest)


def _intact(place: _Place) -> bool:
    """Whether the files are there and are, byte for byte, what the sidecar says was written under this header."""
    try:
        written = json.loads(place.sidecar.read_bytes())
        sums = {side: _file_sum(path) for side, path in place.paths.items()}
    except (OSError, ValueError, RecursionError):  # a damaged sidecar may nest without end
        return False
    return written == place.header | sums


def _file_sum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"size": file.tell(), "sha256": digest.hexdigest()}


def _encode(place: _Place, divided: Split, tokenizer: Encoder, report: Report, in_processes: bool) -> None:
    sums: dict[str, Any] = {}
    dtype = np.dtype(place.header["dtype"]).newbyteorder("<")
    done, size = 0, sum(place.header["bytes"].values())
    report(done, size)
    try:
        # The files take their names together, when all is encoded.
        with workers(size, in_processes=in_processes) as pool, ExitStack() as files:
            for (side, path), chosen in zip(place.paths.items(), (divided.train, divided.held_out), strict=True):
                file, digest = files.enter_context(replacing(path, place.parts)), hashlib.sha256()
                chunks = chunks_of(chosen, len(chosen), place.parts, side)
                for text_bytes, block in encoded(chunks, tokenizer, dtype, pool):
                    digest.update(block)
                    file.write(block)
                    done += text_bytes
                    report(done, size)
                sums[side] = {"size": file.tell(), "sha256": digest.hexdigest()}
        with replacing(place.sidecar, place.parts) as file:
            file.write(json.dumps(place.header | sums, indent=2).encode() + b"\n")
    except OSError as error:
        if _intact(place):  # another process was quicker, and removed the folder of the parts
            return
        folder = place.sidecar.parent
        raise UserError(
            f"{folder}: tokens cannot be written ({error.strerror}); choose another folder, or make room in this one"
        ) from error
    finally:
        with suppress(OSError):  # there are parts in it
            place.parts.rmdir()
