"""Chunks: the same ids however they are encoded, and none twice."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from experiments.data import encoding
from experiments.data.corpus import Document, split
from experiments.data.encoding import chunks_of, encoded, replacing, workers
from experiments.data.tokens import token_files
from experiments.errors import UserError
from tokenization.byte import ByteTokenizer

DOCUMENTS = [Document(str(i), f"document {i} é".encode() * (1 + i % 7)) for i in range(600)]
IDS = np.dtype("<u2")


class _Counting(ByteTokenizer):
    """Counts the bytes it encodes, and may fail after so many calls."""

    def __init__(self, calls: int = 10**9, error: BaseException | None = None) -> None:
        self.bytes, self.calls, self.error = 0, calls, error or ValueError("killed")

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[np.ndarray]:
        self.calls -= 1
        if self.calls < 0:
            raise self.error
        self.bytes += sum(map(len, texts))
        return super().encode_batch(texts)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a kilobyte, a few dozen of them, one after another."""
    monkeypatch.setattr(encoding, "CHUNK", 1000)
    monkeypatch.setattr(encoding, "THREADS", 1)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The files of a run in one chunk."""
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "CHUNK", 10**9)
        token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path / "whole")
    yield _contents(tmp_path / "whole")


def test_chunks_are_all_documents_in_order(tmp_path: Path) -> None:
    chunks = list(chunks_of(DOCUMENTS, len(DOCUMENTS), tmp_path, "train"))
    assert [text for chunk in chunks for text in chunk.texts] == [document.text for document in DOCUMENTS]
    assert all(1000 <= chunk.size < 1000 + 7 * 16 for chunk in chunks[:-1])
    assert sum(chunk.size for chunk in chunks) == sum(len(document.text) for document in DOCUMENTS)
    assert len({chunk.kept for chunk in chunks}) == len(chunks) > 30
    assert list(chunks_of([], 0, tmp_path, "train")) == []


def test_a_chunk_that_is_alone_is_not_kept(tmp_path: Path) -> None:
    (chunk,) = chunks_of(DOCUMENTS[:3], 3, tmp_path, "train")
    assert chunk.kept is None


def test_files_do_not_depend_on_chunks(tmp_path: Path, whole: dict[str, bytes]) -> None:
    token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path / "chunks")
    assert _contents(tmp_path / "chunks") == whole


def test_files_do_not_depend_on_processes(tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PROCESSES_FROM", 1)
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    with workers(1, in_processes=True) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()
    token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path / "processes", in_processes=True)
    assert _contents(tmp_path / "processes") == whole


@pytest.mark.parametrize("size", [encoding.PROCESSES_FROM - 1, encoding.PROCESSES_FROM])
def test_little_text_is_encoded_in_this_process(size: int) -> None:
    with workers(size, in_processes=True) as pool:
        assert isinstance(pool, ThreadPoolExecutor) == (size < encoding.PROCESSES_FROM)
    with workers(size, in_processes=False) as pool:
        assert isinstance(pool, ThreadPoolExecutor)


@pytest.mark.parametrize("error", [ValueError("killed"), KeyboardInterrupt("killed")])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, whole: dict[str, bytes], error: BaseException) -> None:
    folder = tmp_path / "resumed"
    first = _Counting(20, error)
    with pytest.raises(type(error), match="killed"):
        token_files(split(DOCUMENTS), first, folder)
    (parts,) = folder.iterdir()
    assert len(list(parts.iterdir())) == 20
    second = _Counting()
    token_files(split(DOCUMENTS), second, folder)
    assert first.bytes + second.bytes == sum(len(document.text) for document in DOCUMENTS)
    assert _contents(folder) == whole


def _cut(content: bytes) -> bytes:
    return content[:-2]


def _flip(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _nothing(content: bytes) -> bytes:
    return content[:0]


@pytest.mark.parametrize("damage", [_cut, _flip, _nothing])
def test_a_damaged_chunk_is_encoded_again(tmp_path: Path, whole: dict[str, bytes], damage: Callable[[bytes], bytes]) -> None:
    folder = tmp_path / "resumed"
    with pytest.raises(ValueError, match="killed"):
        token_files(split(DOCUMENTS), _Counting(20), folder)
    (parts,) = folder.iterdir()
    train = split(DOCUMENTS).train
    chunks = list(chunks_of(train, len(train), parts, "train"))
    path = chunks[3].kept
    assert path is not None
    path.write_bytes(damage(path.read_bytes()))
    again = _Counting()
    token_files(split(DOCUMENTS), again, folder)
    kept = sum(chunk.size for chunk in chunks[:20]) - chunks[3].size
    assert again.bytes == sum(len(document.text) for document in DOCUMENTS) - kept
    assert _contents(folder) == whole


def test_another_tokenizer_takes_nothing_up(tmp_path: Path) -> None:
    class Other(_Counting):
        def digest(self) -> str:
            return "other"

    with pytest.raises(ValueError, match="killed"):
        token_files(split(DOCUMENTS), _Counting(20), tmp_path)
    other = Other()
    token_files(split(DOCUMENTS), other, tmp_path)
    assert other.bytes == sum(len(document.text) for document in DOCUMENTS)


def test_a_full_disk_is_one_error_and_keeps_what_it_has(tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "full"
    full = _Counting(20, OSError(28, "No space left on device"))
    with pytest.raises(UserError, match=r"full: tokens cannot be written \(No space left on device\); choose another folder"):
        token_files(split(DOCUMENTS), full, folder)
    assert [path.suffix for path in folder.iterdir()] == [".parts"]
    token_files(split(DOCUMENTS), ByteTokenizer(), folder)
    assert _contents(folder) == whole


@pytest.mark.parametrize("chunk", [1000, 10**9])
def test_another_process_that_is_quicker_is_no_error(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """It finishes and removes the parts while this one writes its last chunk."""
    monkeypatch.setattr(encoding, "CHUNK", chunk)
    folder = tmp_path / "shared"

    def overtaken(done: int, size: int) -> None:
        if done == size:
            token_files(split(DOCUMENTS), ByteTokenizer(), folder)
            for path in folder.glob(".*"):
                shutil.rmtree(path)

    token_files(split(DOCUMENTS), ByteTokenizer(), folder, report=overtaken)
    assert _contents(folder) == whole


def test_few_chunks_are_encoded_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    counting = _Counting()
    chunks = list(chunks_of(DOCUMENTS, len(DOCUMENTS), tmp_path, "train"))
    with workers(1, in_processes=False) as pool:
        blocks = encoded(chunks, counting, IDS, pool)
        next(blocks)
        blocks.close()  # pyright: ignore[reportAttributeAccessIssue]  # it is a generator
    assert counting.bytes <= sum(chunk.size for chunk in chunks[:4])


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path, report=lambda done, size: told.append((done, size)))
    size = sum(len(document.text) for document in DOCUMENTS)
    assert told == sorted(told)
    assert (told[0], told[-1]) == ((0, size), (size, size))
    assert len(told) > 30
    again: list[tuple[int, int]] = []
    token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path, report=lambda done, size: again.append((done, size)))
    assert again == []


def test_a_file_that_fails_keeps_its_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path, tmp_path / "scratch") as file:
        file.write(b"ne")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list((tmp_path / "scratch").iterdir()) == []
