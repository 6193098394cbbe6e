"""Token files: written once, verified, encoded again where they are not what was written, and nothing encoded twice."""

import gzip
import hashlib
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.data.text import encoding
from leadline.experiments.data.text.corpus import Document, split, text_documents
from leadline.experiments.data.text.encoding import chunks_of, encoded, replacing, workers
from leadline.experiments.data.text.tokens import token_files
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Specials

DOCUMENTS = [Document(str(i), f"document {i} é".encode() * (1 + i % 7)) for i in range(600)]
SIZE = sum(len(document.text) for document in DOCUMENTS)
TOKENIZER = ByteTokenizer()


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


class _Other(_Counting):
    def digest(self) -> str:
        return "another"


class _Large(ByteTokenizer):
    @property
    def vocabulary_size(self) -> int:
        return 2**16 + 1


class _WithoutEos(ByteTokenizer):
    @property
    def specials(self) -> Specials:
        return Specials(pad=256, bos=257)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a kilobyte, a few dozen of them, one after another."""
    monkeypatch.setattr(encoding, "CHUNK", 1000)
    monkeypatch.setattr(encoding, "THREADS", 1)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run in one chunk."""
    folder = tmp_path_factory.mktemp("whole")
    token_files(split(DOCUMENTS), TOKENIZER, folder)
    return _contents(folder)


@pytest.mark.parametrize(("tokenizer", "dtype"), [(TOKENIZER, np.uint16), (_Large(), np.uint32)])
def test_each_side_is_its_documents_with_eos(tmp_path: Path, tokenizer: ByteTokenizer, dtype: type) -> None:
    files, divided = token_files(split(DOCUMENTS), tokenizer, tmp_path / "new" / "folder"), split(DOCUMENTS)
    for ids, text_bytes, count, side in (
        (files.train, files.train_bytes, files.train_documents, divided.train),
        (files.held_out, files.held_out_bytes, files.held_out_documents, divided.held_out),
    ):
        assert ids.tolist() == [i for document in side for i in [*document.text, 258]]
        assert (text_bytes, count) == (sum(len(document.text) for document in side), len(side))
        assert ids.dtype == dtype
        assert isinstance(ids, np.memmap)
        assert not ids.flags.writeable
    (path,) = (tmp_path / "new" / "folder").glob("*.json")
    sidecar = json.loads(path.read_text())
    assert (sidecar["digest"], sidecar["dtype"], sidecar["tokenizer"]) == (files.digest, np.dtype(dtype).name, "byte")
    assert sidecar["bytes"] == {"train": files.train_bytes, "held_out": files.held_out_bytes}
    assert sidecar["held_out"]["size"] == files.held_out.nbytes


def test_the_second_call_encodes_nothing(tmp_path: Path) -> None:
    first = token_files(split(DOCUMENTS), TOKENIZER, tmp_path)
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(stamps) == 3
    parts = tmp_path / f".tokens-{first.digest}.parts"  # as a run leaves them that was killed at its end
    parts.mkdir()
    (parts / "train.bin.4711-abcd").write_bytes(b"temporary")
    counting, reports = _Counting(), []
    second = token_files(split(DOCUMENTS), counting, tmp_path, report=lambda *numbers: reports.append(numbers))
    assert (counting.bytes, reports) == (0, [])
    for before, after in zip(astuple(first), astuple(second), strict=True):
        np.testing.assert_array_equal(before, after)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _flip(path: Path) -> None:
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(bytes(text))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _no_object(path: Path) -> None:
    path.write_text("[]")


def _nested(path: Path) -> None:
    path.write_text("[" * 100_000)


DAMAGES = (_cut, _flip, _empty)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [(p, d) for p in ("*-train.bin", "*-held_out.bin", "*.json") for d in (*DAMAGES, Path.unlink)]
    + [("*.json", _no_object), ("*.json", _nested)],
)
def test_damaged_files_are_written_again(
    tmp_path: Path, whole: dict[str, bytes], pattern: str, damage: Callable[[Path], None]
) -> None:
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
    (path,) = tmp_path.glob(pattern)
    damage(path)
    counting = _Counting()
    token_files(split(DOCUMENTS), counting, tmp_path)
    assert counting.bytes == SIZE
    assert _contents(tmp_path) == whole


def test_corpus_tokenizer_and_share_each_have_their_own_files(tmp_path: Path) -> None:
    texts = split(DOCUMENTS), split(DOCUMENTS, 0.1), split(DOCUMENTS[1:])
    files = [token_files(text, TOKENIZER, tmp_path) for text in texts] + [token_files(texts[0], _Other(), tmp_path)]
    assert len({each.digest for each in files}) == 4
    assert len(list(tmp_path.iterdir())) == 12


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"file/tokens: tokens cannot be written \(.+\); choose another folder"):
        token_files(split(DOCUMENTS), TOKENIZER, tmp_path / "file" / "tokens")
    with pytest.raises(UserError, match="no EOS"):
        token_files(split(DOCUMENTS), _WithoutEos(), tmp_path)
    with pytest.raises(UserError, match="No space left on device"):  # nothing is left of one chunk
        token_files(split(DOCUMENTS), _Counting(0, OSError(28, "No space left on device")), tmp_path / "full")
    assert list((tmp_path / "full").iterdir()) == []


def _peak(folder: Path, suffix: str, count: int) -> int:
    """Bytes that Python holds at most while so many documents of 10 kB are divided and encoded."""
    folder.mkdir()
    path = folder / f"data.jsonl{suffix}"
    with gzip.open(path, "wt") if suffix else path.open("w") as file:
        file.writelines(json.dumps({"text": hashlib.shake_128(str(i).encode()).hexdigest(5000)}) + "\n" for i in range(count))
    tracemalloc.start()
    try:
        files = token_files(split(text_documents([path])), TOKENIZER, folder / "tokens")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert files.train_bytes + files.held_out_bytes == count * 10_000
    return peak


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 1 << 16)
    monkeypatch.setattr(encoding, "cores", lambda: 1)
    small, large = _peak(tmp_path / "small", suffix, 60), _peak(tmp_path / "large", suffix, 180)
    assert large < small + 200_000  # of 1.2 MB that are more


@pytest.mark.usefixtures("small_chunks")
def test_a_corpus_that_changes_is_never_mixed_with_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    lines = "".join(json.dumps({"text": f"document {i}"}) + "\n" for i in range(400))
    path.write_text(lines)
    divided = split(text_documents([path]))
    path.write_text(lines.replace("document 7", "dokument 7"))
    with pytest.raises(UserError, match="changed while it was read"):
        token_files(divided, TOKENIZER, tmp_path / "tokens")
    assert not list((tmp_path / "tokens").glob("*.*n"))
    path.write_text(lines)
    files = token_files(divided, TOKENIZER, tmp_path / "tokens")
    assert files.train.tolist() == [i for document in divided.train for i in (*document.text, 258)]


@pytest.mark.usefixtures("small_chunks")
def test_chunks_are_all_documents_in_order(tmp_path: Path) -> None:
    chunks = list(chunks_of(DOCUMENTS, len(DOCUMENTS), tmp_path, "train"))
    assert [text for chunk in chunks for text in chunk.texts] == [document.text for document in DOCUMENTS]
    assert all(1000 <= chunk.size < 1000 + 7 * 16 for chunk in chunks[:-1])
    assert sum(chunk.size for chunk in chunks) == SIZE
    assert len({chunk.kept for chunk in chunks}) == len(chunks) > 30
    assert list(chunks_of([], 0, tmp_path, "train")) == []
    (alone,) = chunks_of(DOCUMENTS[:3], 3, tmp_path, "train")
    assert alone.kept is None


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("in_processes", [False, True])
def test_files_depend_neither_on_chunks_nor_on_processes(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, in_processes: bool
) -> None:
    monkeypatch.setattr(encoding, "PROCESSES_FROM", 1)
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    with workers(1, in_processes=in_processes) as pool:
        assert (pool.submit(os.getpid).result() != os.getpid()) == in_processes
    reports: list[tuple[int, int]] = []
    report = lambda done, size: reports.append((done, size))  # noqa: E731
    token_files(split(DOCUMENTS), TOKENIZER, tmp_path, report=report, in_processes=in_processes)
    assert _contents(tmp_path) == whole
    assert reports == sorted(reports)
    assert (reports[0], reports[-1]) == ((0, SIZE), (SIZE, SIZE))
    assert len(reports) > 30


@pytest.mark.parametrize("size", [encoding.PROCESSES_FROM - 1, encoding.PROCESSES_FROM])
def test_little_text_is_encoded_in_this_process(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    with workers(size, in_processes=True) as pool:
        assert isinstance(pool, ThreadPoolExecutor) == (size < encoding.PROCESSES_FROM)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("error", [ValueError("killed"), KeyboardInterrupt("killed"), OSError(28, "No space left on device")])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, whole: dict[str, bytes], error: BaseException) -> None:
    first, second = _Counting(20, error), _Counting()
    with pytest.raises(UserError if isinstance(error, OSError) else type(error), match=r"killed|No space left on device"):
        token_files(split(DOCUMENTS), first, tmp_path)
    (parts,) = tmp_path.iterdir()
    assert len(list(parts.iterdir())) == 20
    token_files(split(DOCUMENTS), second, tmp_path)
    assert first.bytes + second.bytes == SIZE
    assert _contents(tmp_path) == whole


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_chunk_is_encoded_again(tmp_path: Path, whole: dict[str, bytes], damage: Callable[[Path], None]) -> None:
    with pytest.raises(ValueError, match="killed"):
        token_files(split(DOCUMENTS), _Counting(20), tmp_path)
    (parts,) = tmp_path.iterdir()
    train = split(DOCUMENTS).train
    chunks = list(chunks_of(train, len(train), parts, "train"))
    path = chunks[3].kept
    assert path is not None
    damage(path)
    counting = _Counting()
    token_files(split(DOCUMENTS), counting, tmp_path)
    assert counting.bytes == SIZE - sum(chunk.size for chunk in chunks[:20]) + chunks[3].size
    assert _contents(tmp_path) == whole


@pytest.mark.usefixtures("small_chunks")
def test_another_tokenizer_uses_no_chunk_of_the_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="killed"):
        token_files(split(DOCUMENTS), _Counting(20), tmp_path)
    other = _Other()
    token_files(split(DOCUMENTS), other, tmp_path)
    assert other.bytes == SIZE


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("chunk", [1000, 10**9])
def test_another_process_that_is_quicker_is_no_error(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """It finishes and removes the parts while this one writes its last chunk."""
    monkeypatch.setattr(encoding, "CHUNK", chunk)

    def overtaken(done: int, size: int) -> None:
        if done == size:
            token_files(split(DOCUMENTS), TOKENIZER, tmp_path)
            for path in tmp_path.glob(".*"):
                shutil.rmtree(path)

    token_files(split(DOCUMENTS), TOKENIZER, tmp_path, report=overtaken)
    assert _contents(tmp_path) == whole


@pytest.mark.usefixtures("small_chunks")
def test_few_chunks_are_encoded_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    counting = _Counting()
    chunks = list(chunks_of(DOCUMENTS, len(DOCUMENTS), tmp_path, "train"))
    with workers(1, in_processes=False) as pool:
        blocks = encoded(chunks, counting, np.dtype("<u2"), pool)
        next(blocks)
        blocks.close()  # pyright: ignore[reportAttributeAccessIssue]  # it is a generator
    assert counting.bytes <= sum(chunk.size for chunk in chunks[:4])


def test_a_file_that_fails_keeps_its_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path, tmp_path / "scratch") as file:
        file.write(b"ne")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list((tmp_path / "scratch").iterdir()) == []
