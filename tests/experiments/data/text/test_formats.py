"""Compressed files, JSONL inside them, and Parquet; and what is said of files that hold no text."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from leadline.experiments.data.text import formats
from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.data.text.formats import file_texts
from leadline.experiments.runtime.errors import UserError

# More than a decompressor is fed at once, and hard to pack.
LONG = "".join(f"{i**7:x} é\n" for i in range(20_000)).encode()
GOOD = json.dumps({"text": "good"}).encode()


def _zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(text)


def _texts(path: Path, content: bytes) -> list[bytes]:
    path.write_bytes(content)
    return [text for _, text in file_texts(path)]


def _parquet(**columns: object) -> bytes:
    with io.BytesIO() as file:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        return file.getvalue()


PACKS = {".gz": gzip.compress, ".zst": _zstd}
PACKED = pytest.mark.parametrize(("suffix", "pack"), PACKS.items())


@PACKED
def test_a_packed_file_is_what_is_in_all_of_its_members(tmp_path: Path, suffix: str, pack: Callable) -> None:
    packed = pack(LONG)
    assert len(packed) > 100_000
    assert _texts(tmp_path / f"a.txt{suffix}", packed) == _texts(tmp_path / f"a.txt{suffix.upper()}", packed) == [LONG]
    assert _texts(tmp_path / f"a.md{suffix}", pack("é\r\n".encode()) + pack(b"two")) == ["é\r\ntwo".encode()]
    assert _texts(tmp_path / f"a.jsonl{suffix}", pack(GOOD + b"\n\n" + GOOD)) == [b"good", b"good"]


def test_frames_that_hold_no_text_are_skipped(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"any"
    assert _texts(tmp_path / "a.txt.zst", skippable + _zstd(b"one") + skippable + _zstd(b"two")) == [b"onetwo"]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_a_row_of_parquet_is_a_document(tmp_path: Path, kind: pyarrow.DataType) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(_parquet(id=[1, 2, 3, 4], text=pyarrow.array(["é\r\n", "", None, "two"], kind)))
    assert list(file_texts(path)) == [(f"{path}:1", "é\r\n".encode()), (f"{path}:4", b"two")]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte short": lambda packed: packed[:-1],
    "without its checksum": lambda packed: packed[:-9],
    "half": lambda packed: packed[: len(packed) // 2],
    "another header": lambda packed: bytes([packed[0] ^ 1]) + packed[1:],
}
BAD_LINES = {
    "not JSON": ["{'text': 1}", "[" * 100_000],
    'no "text"': ['{"body": "x"}', '{"text": ""}', '{"text": 3}', '["text"]'],
    "character 1 .* lone surrogate": ['{"text": "a\\ud800"}'],
}
INVALID = pyarrow.StringArray.from_buffers(
    2, pyarrow.py_buffer(b"\x00\0\0\0\x02\0\0\0\x04\0\0\0"), pyarrow.py_buffer(b"okx\xe9")
)
ROWS = _parquet(text=[f"document {i**3}" for i in range(2000)])
# Name, content, and what is said of it.
BAD_FILES = [
    *(("a.txt", b"a" * n + b"\xe9tail", rf"a\.txt: not UTF-8 at byte {n} \(0xe9\)") for n in (0, 5, 1000)),
    ("none.txt", b"", r"none\.txt: the file is empty \(0 bytes.* byte 0"),
    ("data.jsonl", b"\n \n", r"data\.jsonl: no line holds a document"),
    *(
        ("data.jsonl", GOOD + f"\n\n{line}\n".encode(), rf"data\.jsonl, line 3: {complaint}")
        for complaint, lines in BAD_LINES.items()
        for line in lines
    ),
    *(
        (f"{name}{suffix}", content, rf"{name}\{suffix}{complaint}")
        for suffix, pack in PACKS.items()
        for name, content, complaint in (
            *(("a.txt", damage(pack(LONG)), ": no whole .+ file .*cut off or damaged") for damage in DAMAGES.values()),
            ("a.jsonl", pack(GOOD + b'\n\n{"body": 1}\n'), ', line 3: no "text"'),
            ("a.txt", pack(b""), ": nothing is in it when unpacked"),
            ("a.txt", pack(b"abc\xe9"), r": not UTF-8 at byte 3 \(0xe9\)"),
        )
    ),
    ("a.parquet", _parquet(id=[1], body=["x"]), """a\\.parquet: no column "text"; its columns are 'id', 'body'"""),
    ("a.parquet", _parquet(text=[1]), 'the column "text" is of type int64; it must be string'),
    ("a.parquet", _parquet(text=["", None, ""]), r"a\.parquet: no row has text"),
    ("a.parquet", _parquet(text=INVALID), r"a\.parquet:2: not UTF-8 at byte 1 \(0xe9\) of this row"),
    *(
        ("a.parquet", content, r"a\.parquet: no whole Parquet file \(.+\); it is cut off or damaged")
        for content in (ROWS[:-20], b"plain text, of some length", ROWS[:20] + bytes(40) + ROWS[60:])
    ),
]


@pytest.mark.parametrize(("name", "content", "complaint"), BAD_FILES, ids=[name for name, *_ in BAD_FILES])
def test_a_file_that_is_no_text_is_named(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    for entry in [tmp_path / name] + [tmp_path] * bool(content):  # of a folder an empty file is left out
        with pytest.raises(UserError, match=complaint):
            list(text_documents([entry]))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz"])
def test_a_packed_document_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(formats, "LARGEST_KEPT", 100_000)
    small, large = (gzip.compress(b'{"text": "%s"}' % (b"x" * size)) for size in (90_000, 10_000_000))
    assert len(large) < 20_000
    assert len(_texts(tmp_path / name, small)) == 1
    larger = rf"{name}: a document in it is larger than 100000 bytes; divide it, into lines of JSONL"
    with pytest.raises(UserError, match=larger):
        _texts(tmp_path / name, large)
    with pytest.raises(UserError, match="a document in it is larger than 100000 bytes"):
        text_documents([Path("/dev/zero")])
    plain = b'{"text": "%s"}' % (b"x" * 200_000)  # what is not packed takes its size on disk
    assert len(_texts(tmp_path / name.removesuffix(".gz"), plain)) == 1


@pytest.mark.parametrize(("name", "package"), [("a.txt.zst", "zstandard"), ("a.parquet", "pyarrow")])
def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{name} needs the package {package} .*pip install -e '\.\[corpora\]'"):
        _texts(tmp_path / name, b"any")
