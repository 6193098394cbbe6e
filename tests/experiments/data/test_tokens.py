"""Token files: written once, verified, rebuilt when they are not what was written."""

import gzip
import hashlib
import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from experiments.data import encoding
from experiments.data.corpus import Document, split, text_documents
from experiments.data.tokens import TokenFiles, token_files
from experiments.errors import UserError
from tokenization.byte import ByteTokenizer
from tokenization.tokenizer import Specials

DOCUMENTS = [Document(str(i), f"document {i} é".encode()) for i in range(600)]


class _Counting(ByteTokenizer):
    """Counts the texts it encodes."""

    def __init__(self) -> None:
        self.texts = 0

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[np.ndarray]:
        self.texts += len(texts)
        return super().encode_batch(texts)


class _Large(ByteTokenizer):
    @property
    def vocabulary_size(self) -> int:
        return 2**16 + 1


class _WithoutEos(ByteTokenizer):
    @property
    def specials(self) -> Specials:
        return Specials(pad=256, bos=257)


def _equal(a: TokenFiles, b: TokenFiles) -> bool:
    same_ids = np.array_equal(a.train, b.train) and np.array_equal(a.held_out, b.held_out)
    return same_ids and (a.train_bytes, a.held_out_bytes, a.digest) == (b.train_bytes, b.held_out_bytes, b.digest)


def test_each_side_is_its_documents_with_eos(tmp_path: Path) -> None:
    found = token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path / "new" / "folder")
    divided = split(DOCUMENTS)
    for ids, text_bytes, side in (
        (found.train, found.train_bytes, divided.train),
        (found.held_out, found.held_out_bytes, divided.held_out),
    ):
        expected = [i for document in side for i in [*document.text, 258]]
        assert ids.tolist() == expected
        assert text_bytes == sum(len(document.text) for document in side) == len(ids) - len(side)
        assert ids.dtype == np.uint16
        assert isinstance(ids, np.memmap)
        assert not ids.flags.writeable


def test_the_second_call_encodes_nothing(tmp_path: Path) -> None:
    first = token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path)
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(stamps) == 3
    counting = _Counting()
    second = token_files(split(DOCUMENTS), counting, tmp_path)
    assert counting.texts == 0
    assert _equal(first, second)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _flip(path: Path) -> None:
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(bytes(text))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _remove(path: Path) -> None:
    path.unlink()


def _no_object(path: Path) -> None:
    path.write_text("[]")


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [(p, d) for p in ("*-train.bin", "*-held_out.bin", "*.json") for d in (_cut, _flip, _empty, _remove)]
    + [("*.json", _no_object)],
)
def test_damaged_files_are_written_again(tmp_path: Path, pattern: str, damage: Callable[[Path], None]) -> None:
    first = token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path)
    expected = [first.train.tolist(), first.held_out.tolist()]
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (path,) = tmp_path.glob(pattern)
    damage(path)
    counting = _Counting()
    second = token_files(split(DOCUMENTS), counting, tmp_path)
    assert counting.texts == len(DOCUMENTS)
    assert [second.train.tolist(), second.held_out.tolist()] == expected
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents


def test_corpus_tokenizer_and_share_each_have_their_own_files(tmp_path: Path) -> None:
    found = [
        token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path),
        token_files(split(DOCUMENTS, 0.1), ByteTokenizer(), tmp_path),
        token_files(split(DOCUMENTS[1:]), ByteTokenizer(), tmp_path),
        token_files(split(DOCUMENTS), _Other(), tmp_path),
    ]
    assert len({files.digest for files in found}) == 4
    assert len(list(tmp_path.iterdir())) == 12


class _Other(ByteTokenizer):
    def digest(self) -> str:
        return "another"


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    found = token_files(split(DOCUMENTS), _Large(), tmp_path)
    assert found.train.dtype == np.uint32
    assert found.train[: len(DOCUMENTS[0].text)].tolist() == list(next(iter(split(DOCUMENTS).train)).text)


def test_the_sidecar_says_what_the_files_are(tmp_path: Path) -> None:
    found = token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path)
    (path,) = tmp_path.glob("*.json")
    meta = json.loads(path.read_text())
    assert (meta["digest"], meta["dtype"], meta["tokenizer"]) == (found.digest, "uint16", "byte")
    assert meta["bytes"] == {"train": found.train_bytes, "held_out": found.held_out_bytes}
    assert meta["held_out"]["size"] == 2 * len(found.held_out)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"file/tokens: tokens cannot be written \(.+\); choose another folder"):
        token_files(split(DOCUMENTS), ByteTokenizer(), tmp_path / "file" / "tokens")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    class Failing(ByteTokenizer):
        def encode_batch(self, texts: Sequence[str | bytes]) -> list[np.ndarray]:
            if len(texts) < 256:
                raise OSError(28, "No space left on device")
            return super().encode_batch(texts)

    with pytest.raises(UserError, match="No space left on device"):
        token_files(split(DOCUMENTS), Failing(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def _peak(folder: Path, suffix: str, count: int) -> int:
    """Bytes that Python holds at most while so many documents of 10 kB are divided and encoded."""
    folder.mkdir()
    path = folder / f"data.jsonl{suffix}"
    with gzip.open(path, "wt") if suffix else path.open("w") as file:
        file.writelines(json.dumps({"text": hashlib.shake_128(str(i).encode()).hexdigest(5000)}) + "\n" for i in range(count))
    tracemalloc.start()
    try:
        found = token_files(split(text_documents([path])), ByteTokenizer(), folder / "tokens")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.train_bytes + found.held_out_bytes == count * 10_000
    return peak


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 1 << 16)
    monkeypatch.setattr(encoding, "cores", lambda: 1)
    small, large = _peak(tmp_path / "small", suffix, 250), _peak(tmp_path / "large", suffix, 1000)
    assert large < small + 200_000  # of 7.5 MB that are more


def test_a_corpus_that_changes_is_never_mixed_with_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 1000)
    path = tmp_path / "data.jsonl"
    lines = [json.dumps({"text": f"document {i}"}) + "\n" for i in range(400)]
    path.write_text("".join(lines))
    divided = split(text_documents([path]))
    path.write_text("".join(lines).replace("document 7", "dokument 7"))
    with pytest.raises(UserError, match="changed while it was read"):
        token_files(divided, ByteTokenizer(), tmp_path / "tokens")
    assert not list((tmp_path / "tokens").glob("*.*n"))
    path.write_text("".join(lines))
    found = token_files(divided, ByteTokenizer(), tmp_path / "tokens")
    assert found.train.tolist() == [i for document in divided.train for i in (*document.text, 258)]


def test_documents_need_an_eos(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no EOS"):
        token_files(split(DOCUMENTS), _WithoutEos(), tmp_path)
