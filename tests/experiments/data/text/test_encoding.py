"""Chunks of documents, the pools that encode them, the memory that this takes, and files that are replaced as a whole."""

import gzip
import hashlib
import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leadline.experiments.data.text import encoding
from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.data.text.encoding import replacing, workers
from leadline.experiments.data.text.split import split
from leadline.experiments.data.text.tokens import token_files
from leadline.tokenization.byte import ByteTokenizer


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
    assert large < small + 300_000  # of 600 kB that are more; how many blocks wait for the disk is up to the machine
