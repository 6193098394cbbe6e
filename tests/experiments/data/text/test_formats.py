"""Compressed files, JSONL inside them, and Parquet."""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from leadline.experiments.data.text import formats
from leadline.experiments.data.text.formats import file_texts
from leadline.experiments.runtime.errors import UserError

# More than a decompressor is fed at once, and hard to pack.
LONG = "".join(f"{i**7:x} é\n" for i in range(20_000)).encode()


def _zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(text)


def _texts(path: Path, content: bytes) -> list[bytes]:
    path.write_bytes(content)
    return [text for _, text in file_texts(path)]


def _parquet(path: Path, **columns: object) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


PACKED = pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])


@PACKED
def test_a_packed_file_is_what_is_in_all_of_its_members(tmp_path: Path, suffix: str, pack: Callable) -> None:
    packed = pack(LONG)
    assert len(packed) > 100_000
    assert _texts(tmp_path / f"a.txt{suffix}", packed) == _texts(tmp_path / f"a.txt{suffix.upper()}", packed) == [LONG]
    assert _texts(tmp_path / f"a.md{suffix}", pack("é\r\n".encode()) + pack(b"two")) == ["é\r\ntwo".encode()]


def test_frames_that_hold_no_text_are_skipped(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"any"
    assert _texts(tmp_path / "a.txt.zst", skippable + _zstd(b"one") + skippable + _zstd(b"two")) == [b"onetwo"]


DAMAGES = {
    "one byte short": lambda packed: packed[:-1],
    "without its checksum": lambda packed: packed[:-9],
    "half": lambda packed: packed[: len(packed) // 2],
    "another header": lambda packed: bytes([packed[0] ^ 1]) + packed[1:],
}


@PACKED
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path, suffix: str, pack: Callable, damage: Callable) -> None:
    with pytest.raises(UserError, match=rf"a\.txt\{suffix}: no whole .+ file .*cut off or damaged"):
        _texts(tmp_path / f"a.txt{suffix}", damage(pack(LONG)))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz"])
def test_a_packed_document_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(formats, "LARGEST_UNPACKED", 100_000)
    small, large = (gzip.compress(b'{"text": "%s"}' % (b"x" * size)) for size in (90_000, 10_000_000))
    assert len(large) < 20_000
    assert len(_texts(tmp_path / name, small)) == 1
    larger = rf"{name}: a document in it is larger than 100000 bytes; divide it, into lines of JSONL"
    with pytest.raises(UserError, match=larger):
        _texts(tmp_path / name, large)
    plain = b'{"text": "%s"}' % (b"x" * 200_000)  # what is not packed takes its size on disk
    assert len(_texts(tmp_path / name.removesuffix(".gz"), plain)) == 1


@PACKED
def test_what_is_inside_a_packed_file_is_read_as_such(tmp_path: Path, suffix: str, pack: Callable) -> None:
    good = json.dumps({"text": "good"}).encode()
    assert _texts(tmp_path / f"a.jsonl{suffix}", pack(good + b"\n\n" + good)) == [b"good", b"good"]
    for name, content, complaint in (
        ("a.jsonl", good + b'\n\n{"body": 1}\n', rf'a\.jsonl\{suffix}, line 3: no "text"'),
        ("a.txt", b"", "nothing is in it when unpacked"),
        ("a.txt", b"abc\xe9", rf"a\.txt\{suffix}: not UTF-8 at byte 3 \(0xe9\)"),
    ):
        with pytest.raises(UserError, match=complaint):
            _texts(tmp_path / f"{name}{suffix}", pack(content))


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_a_row_of_parquet_is_a_document(tmp_path: Path, kind: pyarrow.DataType) -> None:
    path = _parquet(tmp_path / "a.parquet", id=[1, 2, 3, 4], text=pyarrow.array(["é\r\n", "", None, "two"], kind))
    assert list(file_texts(path)) == [(f"{path}:1", "é\r\n".encode()), (f"{path}:4", b"two")]


INVALID = pyarrow.StringArray.from_buffers(
    2, pyarrow.py_buffer(b"\x00\0\0\0\x02\0\0\0\x04\0\0\0"), pyarrow.py_buffer(b"okx\xe9")
)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"id": [1], "body": ["x"]}, """a\\.parquet: no column "text"; its columns are 'id', 'body'"""),
        ({"text": [1]}, 'the column "text" is of type int64; it must be string'),
        ({"text": ["", None, ""]}, r"a\.parquet: no row has text"),
        ({"text": INVALID}, r"a\.parquet:2: not UTF-8 at byte 1 \(0xe9\) of this row"),
    ],
    ids=["column", "type", "empty", "bytes"],
)
def test_parquet_without_text_is_named(tmp_path: Path, columns: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        list(file_texts(_parquet(tmp_path / "a.parquet", **columns)))


@pytest.mark.parametrize("damage", ["cut", "no parquet", "page"])
def test_parquet_that_is_damaged_is_named(tmp_path: Path, damage: str) -> None:
    path = _parquet(tmp_path / "a.parquet", text=[f"document {i**3}" for i in range(2000)])
    content = bytearray(path.read_bytes())
    if damage == "page":
        content[20:60] = bytes(40)
    path.write_bytes({"cut": content[:-20], "no parquet": b"plain text, of some length", "page": content}[damage])
    with pytest.raises(UserError, match=r"a\.parquet: no whole Parquet file \(.+\); it is cut off or damaged"):
        list(file_texts(path))


@pytest.mark.parametrize(("name", "package"), [("a.txt.zst", "zstandard"), ("a.parquet", "pyarrow")])
def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{name} needs the package {package} .*pip install '\.\[corpora\]'"):
        _texts(tmp_path / name, b"any")
