"""Token files: written once, verified, encoded again where they are not what was written, and nothing encoded twice."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path

import jax
import numpy as np
import pytest

from leadline.experiments.data.text import encoding
from leadline.experiments.data.text.corpus import Document, text_documents
from leadline.experiments.data.text.encoding import Begun, chunks_of, workers
from leadline.experiments.data.text.split import split
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
    vocabulary_size = 2**16 + 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


class _WithoutEos(ByteTokenizer):
    specials = Specials(pad=256, bos=257)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


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


@pytest.fixture
def killed(tmp_path: Path, small_chunks: None) -> Path:  # noqa: ARG001
    """The folder of a run that was killed when it had encoded 20 chunks, and the parts that it left."""
    with pytest.raises(ValueError, match="killed"):
        token_files(split(DOCUMENTS), _Counting(20), tmp_path)
    (parts,) = tmp_path.iterdir()
    assert len(list(parts.iterdir())) == 20
    return tmp_path


@pytest.mark.parametrize(("tokenizer", "dtype"), [(TOKENIZER, np.uint16), (_Large(), np.uint32)])
def test_each_side_is_its_documents_with_eos(tmp_path: Path, tokenizer: ByteTokenizer, dtype: type) -> None:
    files, divided = token_files(split(DOCUMENTS), tokenizer, tmp_path / "new" / "folder"), split(DOCUMENTS)
    (path,) = (tmp_path / "new" / "folder").glob("*.json")
    sidecar = json.loads(path.read_text())
    for name, ids, count, side in (
        ("train", files.train, files.train_documents, divided.train),
        ("held_out", files.held_out, files.held_out_documents, divided.held_out),
    ):
        assert ids.tolist() == [i for document in side for i in [*document.text, 258]]
        assert (count, ids.dtype, sidecar[name]["size"]) == (len(side), dtype, ids.nbytes)
        assert sidecar["bytes"][name] == sum(len(document.text) for document in side)
        assert isinstance(ids, np.memmap)
        assert not ids.flags.writeable
    assert (sidecar["digest"], sidecar["dtype"], sidecar["tokenizer"]) == (files.digest, np.dtype(dtype).name, "byte")


def test_an_id_may_stand_before_each_document(tmp_path: Path) -> None:
    plain = token_files(split(DOCUMENTS), TOKENIZER, tmp_path)
    begun = token_files(split(DOCUMENTS), Begun(TOKENIZER, 257), tmp_path)
    assert begun.train.tolist() == [i for document in split(DOCUMENTS).train for i in [257, *document.text, 258]]
    assert begun.digest != plain.digest


def test_the_second_call_encodes_nothing(tmp_path: Path) -> None:
    first = token_files(split(DOCUMENTS), TOKENIZER, tmp_path)
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    parts = tmp_path / f".tokens-{first.digest}.parts"  # as a run leaves them that was killed at its end
    parts.mkdir()
    (parts / "train.bin.4711-abcd").write_bytes(b"temporary")
    counting, reports = _Counting(), []
    second = token_files(split(DOCUMENTS), counting, tmp_path, report=lambda *numbers: reports.append(numbers))
    assert (counting.bytes, reports, len(stamps)) == (0, [], 3)
    jax.tree.map(np.testing.assert_array_equal, astuple(first)[:-1], astuple(second)[:-1])
    assert first.digest == second.digest
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


# What becomes of the content of a file; None: it is gone.
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": lambda content: content[:-2],
    "flipped": lambda content: content[:99] + bytes([content[99] ^ 1]) + content[100:],
    "empty": lambda _: b"",
    "gone": lambda _: None,
    "list": lambda _: b"[]",
    "deep": lambda _: b"[" * 100_000,
}


def _damage(path: Path, damage: str) -> None:
    content = DAMAGES[damage](path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", ["*-train.bin", "*-held_out.bin", "*.json"])
def test_damaged_files_are_written_again(tmp_path: Path, whole: dict[str, bytes], pattern: str, damage: str) -> None:
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
    (path,) = tmp_path.glob(pattern)
    _damage(path, damage)
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
    for tokenizer, message in (
        (TOKENIZER, r"file/tokens: tokens cannot be written \(.+\); choose another folder"),
        (_WithoutEos(), "no EOS"),
    ):
        with pytest.raises(UserError, match=message):
            token_files(split(DOCUMENTS), tokenizer, tmp_path / "file" / "tokens")


def test_nothing_is_left_of_one_chunk_that_fails(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No space left on device"):
        token_files(split(DOCUMENTS), _Counting(0, OSError(28, "No space left on device")), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_chunks")
def test_a_corpus_that_changes_is_never_mixed_with_what_was_kept(tmp_path: Path) -> None:
    path, lines = tmp_path / "data.jsonl", "".join(json.dumps({"text": f"document {i}"}) + "\n" for i in range(400))
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
@pytest.mark.parametrize("in_processes", [False, True])
def test_files_depend_neither_on_chunks_nor_on_processes(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, in_processes: bool
) -> None:
    monkeypatch.setattr(encoding, "PROCESSES_FROM", 1)
    monkeypatch.setattr(encoding, "cores", lambda: 2)
    with workers(1, in_processes=in_processes) as pool:
        assert (pool.submit(os.getpid).result() != os.getpid()) == in_processes
    reports: list[tuple[int, int]] = []
    token_files(split(DOCUMENTS), TOKENIZER, tmp_path, lambda *numbers: reports.append(numbers), in_processes=in_processes)
    assert _contents(tmp_path) == whole
    assert reports == sorted(reports)
    assert (reports[0], reports[-1]) == ((0, SIZE), (SIZE, SIZE))
    assert len(reports) > 30


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_run_that_was_killed_goes_on(tmp_path: Path, whole: dict[str, bytes], error: type[BaseException]) -> None:
    first, second = _Counting(20, error("killed")), _Counting()
    with pytest.raises(UserError if error is OSError else error, match="killed"):
        token_files(split(DOCUMENTS), first, tmp_path)
    token_files(split(DOCUMENTS), second, tmp_path)
    assert first.bytes + second.bytes == SIZE
    assert _contents(tmp_path) == whole


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_chunk_is_encoded_again(killed: Path, whole: dict[str, bytes], damage: str) -> None:
    (parts,) = killed.iterdir()
    train = split(DOCUMENTS).train
    chunks = list(chunks_of(train, len(train), parts, "train"))
    assert chunks[3].kept is not None
    _damage(chunks[3].kept, damage)
    counting = _Counting()
    token_files(split(DOCUMENTS), counting, killed)
    assert counting.bytes == SIZE - sum(chunk.size for chunk in chunks[:20]) + chunks[3].size
    assert _contents(killed) == whole


def test_another_tokenizer_uses_no_chunk_of_the_first(killed: Path) -> None:
    other = _Other()
    token_files(split(DOCUMENTS), other, killed)
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
