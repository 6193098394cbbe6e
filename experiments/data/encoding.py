"""Documents to token ids, chunk by chunk and in order, without encoding again what a run that died had encoded."""

import contextlib
import hashlib
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from experiments.cores import cores, process_pool
from experiments.data.corpus import Document
from tokenization.tokenizer import Tokenizer

# Bytes of text in a chunk: seconds of work for a tokenizer in Python, and enough for one that divides it among the cores.
# A longer document is a chunk of its own, since nothing says where it could be cut.
CHUNK = 1 << 20
# Bytes of text from which processes pay, which take seconds to start: about ten seconds of encoding in Python.
PROCESSES_FROM = 4 << 20
# A library with threads of its own has the next chunk while the ids of the last one are copied out of it.
THREADS = 2


@dataclass(frozen=True)
class Chunk:
    """Texts that are encoded together, how long they are in bytes, and where their ids are kept; None: nowhere."""

    texts: tuple[bytes, ...]
    size: int
    kept: Path | None


def chunks_of(documents: Iterable[Document], count: int, folder: Path, side: str) -> Iterator[Chunk]:
    """The `count` documents of one side in chunks, which depend on nothing else; one that is alone is not kept.

    `folder` belongs to one tokenizer; a chunk is named by its side, the number of its first document and its texts, so that
    what was kept of a file that changed since is not taken up.
    """
    texts: list[bytes] = []
    begin, size = 0, 0
    for end, document in enumerate(documents, start=1):
        texts.append(document.text)
        size += len(document.text)
        if size >= CHUNK or end == count:
            kept = None if (begin, end) == (0, count) else folder / f"{side}-{begin}-{_name(texts)}"
            yield Chunk(tuple(texts), size, kept)
            texts, begin, size = [], end, 0


def _name(texts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()[:32]


@contextlib.contextmanager
def workers(size: int, *, in_processes: bool) -> Iterator[Executor]:
    """What encodes `size` bytes: a process a core where that is asked for and pays, else threads of this process."""
    processes = in_processes and size >= PROCESSES_FROM and cores() > 1
    with process_pool() if processes else ThreadPoolExecutor(1 if in_processes else THREADS) as pool:
        yield pool


def encoded(chunks: Iterable[Chunk], tokenizer: Tokenizer, dtype: np.dtype, pool: Executor) -> Iterator[tuple[int, bytes]]:
    """The bytes of text of each chunk and the ids of its documents, EOS after each, as they stand on disk, in order.

    Few chunks and blocks are in memory at once. Each block is kept, behind its SHA-256, until the folder is removed; what is
    found there and agrees with it is not encoded again. Raises OSError where it cannot be kept.
    """
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk.size, pool.submit(_block, chunk, tokenizer, dtype.str)))
            # As many again as can be worked on, so that nobody waits for the disk.
            if len(waiting) >= 2 * max(THREADS, cores()):
                size, future = waiting.popleft()
                yield size, future.result()
        while waiting:
            size, future = waiting.popleft()
            yield size, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


@contextlib.contextmanager
def replacing(path: Path, scratch: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A file that takes its name only once it is complete, and on disk if `durable`; of two writers the later wins, unmixed.

    Until then it lies in the folder `scratch`, on the same file system, with which what a killed run leaves is removed.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    temporary = scratch / f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _block(chunk: Chunk, tokenizer: Tokenizer, dtype: str) -> bytes:
    """What a worker does."""
    if chunk.kept is not None and (block := _found(chunk.kept)) is not None:
        return block
    eos = np.array([tokenizer.specials.eos], dtype).tobytes()
    block = b"".join(part for ids in tokenizer.encode_batch(chunk.texts) for part in (ids.astype(dtype).tobytes(), eos))
    if chunk.kept is not None:
        # Another process that has finished the same corpus may remove the folder at any time.
        with contextlib.suppress(FileNotFoundError), replacing(chunk.kept, chunk.kept.parent, durable=False) as file:
            file.write(hashlib.sha256(block).digest())
            file.write(block)
    return block


def _found(kept: Path) -> bytes | None:
    """The block, if it is, byte for byte, what was written."""
    try:
        with kept.open("rb") as file:
            digest, block = file.read(hashlib.sha256().digest_size), file.read()
    except OSError:
        return None
    return block if digest == hashlib.sha256(block).digest() else None
