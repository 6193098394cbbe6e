"""Documents to token ids, chunk by chunk and in order. Chunks that a killed run has encoded are not encoded again."""

import contextlib
import hashlib
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32

from leadline.experiments.data.text.corpus import Document
from leadline.experiments.runtime.cpu import cores, process_pool
from leadline.tokenization.ids import definition_digest
from leadline.tokenization.tokenizer import Specials

# Bytes of text in a chunk: seconds of work for a tokenizer in Python, and enough for a library that uses all cores. A longer
# document is a chunk of its own, since a tokenizer may not be able to cut it.
CHUNK = 1 << 20
# Bytes of text from which processes pay, which take seconds to start: about ten seconds of encoding in Python.
PROCESSES_FROM = 4 << 20
# A library with its own threads encodes the next chunk while the ids of the last one are copied.
THREADS = 2


@runtime_checkable
class Encoder(Protocol):
    """What files of tokens need of a tokenizer."""

    @property
    def name(self) -> str: ...

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def specials(self) -> Specials: ...

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """The ids of each text."""
        ...

    def digest(self) -> str:
        """Of all that decides the ids."""
        ...


@dataclass(frozen=True)
class Begun:
    """An encoder whose every text begins with one more id, such as BOS."""

    inner: Encoder
    first: int

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def vocabulary_size(self) -> int:
        return self.inner.vocabulary_size

    @property
    def specials(self) -> Specials:
        return self.inner.specials

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """The ids of each text, after the first one."""
        return [np.concatenate([np.array([self.first], np.int32), ids]) for ids in self.inner.encode_batch(texts)]

    def digest(self) -> str:
        """SHA-256 of all that decides the ids of a text."""
        return definition_digest({"first": self.first, "inner": self.inner.digest()})


@dataclass(frozen=True)
class Chunk:
    """Texts that are encoded together, their bytes, and the file that keeps their ids, or None."""

    texts: tuple[bytes, ...]
    size: int
    kept: Path | None


def chunks_of(documents: Iterable[Document], count: int, folder: Path, side: str) -> Iterator[Chunk]:
    """The `count` documents of one side in chunks, which depend on nothing else. A single chunk is not kept in a file.

    `folder` belongs to one tokenizer. The name of a chunk's file has its side, the number of its first document and the digest
    of its texts, so that ids of a file that has changed since are not used.
    """
    texts: list[bytes] = []
    begin, size = 0, 0
    for end, document in enumerate(documents, start=1):
        texts.append(document.text)
        size += len(document.text)
        if size >= CHUNK or end == count:
            digest = hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()[:32]
            kept = None if (begin, end) == (0, count) else folder / f"{side}-{begin}-{digest}"
            yield Chunk(tuple(texts), size, kept)
            texts, begin, size = [], end, 0


@contextlib.contextmanager
def workers(size: int, *, in_processes: bool) -> Iterator[Executor]:
    """The pool that encodes `size` bytes: a process per core where `in_processes` and it pays, else threads."""
    processes = in_processes and size >= PROCESSES_FROM and cores() > 1
    with process_pool() if processes else ThreadPoolExecutor(1 if in_processes else THREADS) as pool:
        yield pool


def encoded(chunks: Iterable[Chunk], tokenizer: Encoder, dtype: np.dtype, pool: Executor) -> Iterator[tuple[int, bytes]]:
    """The bytes of text of each chunk and the ids of its documents, EOS after each, as they stand on disk, in order.

    Few chunks and blocks are in memory at once. Each block is kept in a file with its SHA-256 until the folder is removed; a
    block whose file is intact is not encoded again.

    Raises:
        OSError: where a block cannot be kept.
    """
    submitted = ((chunk.size, pool.submit(_block, chunk, tokenizer, dtype.str)) for chunk in chunks)
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    try:
        # As many again as can be worked on, so that nobody waits for the disk.
        waiting.extend(islice(submitted, 2 * max(THREADS, cores())))
        while waiting:
            size, future = waiting.popleft()
            yield size, future.result()
            waiting.extend(islice(submitted, 1))
    finally:
        for _, future in waiting:
            future.cancel()


@contextlib.contextmanager
def replacing(path: Path, scratch: Path) -> Iterator[BinaryIO]:
    """A file that takes its name only once it is complete and on disk. Of two writers the later wins.

    Until then it lies in the folder `scratch` of the same file system, which is removed as a whole after a killed run.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    temporary = scratch / f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _block(chunk: Chunk, tokenizer: Encoder, dtype: str) -> bytes:
    """The ids of a chunk as bytes, from its file or encoded; runs in a worker."""
    if chunk.kept is not None:
        with contextlib.suppress(OSError):
            with chunk.kept.open("rb") as file:
                digest, block = file.read(hashlib.sha256().digest_size), file.read()
            if digest == hashlib.sha256(block).digest():  # it was written to its end
                return block
    eos = np.array([tokenizer.specials.eos], dtype).tobytes()
    block = b"".join(part for ids in tokenizer.encode_batch(chunk.texts) for part in (ids.astype(dtype).tobytes(), eos))
    if chunk.kept is not None:
        # Another process that has finished the same corpus may remove the folder at any time.
        with contextlib.suppress(FileNotFoundError):
            chunk.kept.write_bytes(hashlib.sha256(block).digest() + block)
    return block
