"""Chunks of documents, the pools that encode them, the memory that this takes, and files that are replaced as a whole."""

import gzip
import hashlib
import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.data.text import encoding
from leadline.experiments.data.text.corpus import Document, text_documents
from leadline.experiments.data.text.encoding import Chunk, chunks_of, encoded, replacing, workers
from leadline.experiments.data.text.split import split
from leadline.experiments.data.text.tokens import token_files
from leadline.tokenization.byte import ByteTokenizer

DOCUMENTS = [Document(str(i), f"document {i} é".encode() * (1 + i % 7)) for i in range(200)]


@pytest.fixture
def chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    monkeypatch.setattr(encoding, "CHUNK", 500)
    return list(chunks_of(DOCUMENTS, len(DOCUMENTS), tmp_path, "train"))


def test_chunks_are_all_documents_in_order(tmp_path: Path, chunks: list[Chunk]) -> None:
    assert [text for chunk in chunks for text in chunk.texts] == [document.text for document in DOCUMENTS]
    assert all(500 <= chunk.size == sum(map(len, chunk.texts)) < 500 + 7 * 16 for chunk in chunks[:-1])
    assert len({chunk.kept for chunk in chunks}) == len(chunks) > 20
    assert list(chunks_of([], 0, tmp_path, "train")) == []
    (alone,) = chunks_of(DOCUMENTS[:3], 3, tmp_path, "train")
    assert alone.kept is None


def test_few_chunks_are_encoded_ahead(chunks: list[Chunk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    left = iter(chunks)
    with workers(1, in_processes=False) as pool:
        assert next(encoded(left, ByteTokenizer(), np.dtype("<u2"), pool))[0] == chunks[0].size
    assert len(chunks) - len(list(left)) == 4


@pytest.mark.parametrize("size", [encoding.PROCESSES_FROM - 1, encoding.PROCESSES_FROM])
def test_little_text_is_encoded_in_this_process(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    with workers(size, in_processes=True) as pool:
        assert isinstance(pool, ThreadPoolExecutor) == (size < encoding.PROCESSES_FROM)


def test_a_file_that_fails_keeps_its_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path, tmp_path / "scratch") as file:
        file.write(b"ne")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list((tmp_path / "scratch").iterdir()) == []


def _peak(folder: Path, count: int) -> int:
    """Bytes that Python holds at most while so many documents of 10 kB are unpacked, divided and encoded."""
    folder.mkdir()
    with gzip.open(folder / "data.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": hashlib.shake_128(str(i).encode()).hexdigest(5000)}) + "\n" for i in range(count))
    tracemalloc.start()
    try:
        token_files(split(text_documents([folder / "data.jsonl.gz"])), ByteTokenizer(), folder / "tokens")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 1 << 15)
    monkeypatch.setattr(encoding, "cores", lambda: 1)
    small, large = _peak(tmp_path / "small", 60), _peak(tmp_path / "large", 120)
    assert large < small + 100_000  # of 600 kB that are more
