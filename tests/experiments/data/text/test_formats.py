"""Compressed files, JSONL inside them, and Parquet."""

import gzip
import json
import sys
from pathlib import Path, PurePath

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from leadline.experiments.data.text import formats
from leadline.experiments.data.text.formats import file_texts, inner_suffix
from leadline.experiments.runtime.errors import UserError

# More than a decompressor is fed at once, and hard to pack.
LONG = "".join(f"{i**7:x} é\n" for i in range(80_000)).encode()


def _zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(text)


def _texts(path: Path, content: bytes) -> list[bytes]:
    path.write_bytes(content)
    return [text for _, text in file_texts(path)]


def _parquet(path: Path, **columns: object) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd), (".GZ", gzip.compress)])
def test_a_packed_file_is_what_is_in_it(tmp_path: Path, suffix: str, pack) -> None:
    packed = pack(LONG)
    assert len(packed) > 500_000
    assert _texts(tmp_path / f"a.txt{suffix}", packed) == [LONG]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_all_members_of_a_packed_file_are_read(tmp_path: Path, suffix: str, pack) -> None:
    assert _texts(tmp_path / f"a.md{suffix}", pack("é\r\n".encode()) + pack(b"two")) == ["é\r\ntwo".encode()]


def test_frames_that_hold_no_text_are_skipped(tmp_path: Path) -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"any"
    assert _texts(tmp_path / "a.txt.zst", skippable + _zstd(b"one") + skippable + _zstd(b"two")) == [b"onetwo"]


@pytest.mark.parametrize("cut", [1, 9, 1 << 19])
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_a_packed_file_that_is_cut_off_is_named(tmp_path: Path, suffix: str, pack, cut: int) -> None:
    with pytest.raises(UserError, match=rf"a\.txt\{suffix}: no whole .+ file .*cut off or damaged"):
        _texts(tmp_path / f"a.txt{suffix}", pack(LONG)[:-cut])


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz"])
def test_a_packed_document_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(formats, "LARGEST_UNPACKED", 100_000)
    small, large = (gzip.compress(b'{"text": "%s"}' % (b"x" * size)) for size in (90_000, 10_000_000))
    assert len(large) < 20_000
    assert len(_texts(tmp_path / name, small)) == 1
    with pytest.raises(
        UserError, match=rf"{name}: a document in it is larger than 100000 bytes; divide it, into lines of JSONL"
    ):
        _texts(tmp_path / name, large)
    _texts(
        tmp_path / name.removesuffix(".gz"), b'{"text": "%s"}' % (b"x" * 200_000)
    )  # what is not packed takes its size on disk


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path, suffix: str, pack) -> None:
    packed = bytearray(pack(LONG))
    packed[0] ^= 1
    with pytest.raises(UserError, match=rf"a\.txt\{suffix}: no whole .+ file"):
        _texts(tmp_path / f"a.txt{suffix}", bytes(packed))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_a_packed_file_with_nothing_inside_is_named(tmp_path: Path, suffix: str, pack) -> None:
    with pytest.raises(UserError, match="nothing is in it when unpacked"):
        _texts(tmp_path / f"a.txt{suffix}", pack(b""))


def test_what_is_unpacked_must_be_utf8(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.txt\.gz: not UTF-8 at byte 3 \(0xe9\)"):
        _texts(tmp_path / "a.txt.gz", gzip.compress(b"abc\xe9"))


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_a_bad_line_of_packed_jsonl_is_named(tmp_path: Path, suffix: str, pack) -> None:
    good = json.dumps({"text": "good"}).encode()
    assert _texts(tmp_path / f"a.jsonl{suffix}", pack(good + b"\n\n" + good)) == [b"good", b"good"]
    with pytest.raises(UserError, match=rf'a\.jsonl\{suffix}, line 3: no "text"'):
        _texts(tmp_path / f"a.jsonl{suffix}", pack(good + b'\n\n{"body": 1}\n'))


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_a_row_of_parquet_is_a_document(tmp_path: Path, kind: pyarrow.DataType) -> None:
    path = _parquet(tmp_path / "a.parquet", id=[1, 2, 3, 4], text=pyarrow.array(["é\r\n", "", None, "two"], kind))
    assert list(file_texts(path)) == [(f"{path}:1", "é\r\n".encode()), (f"{path}:4", b"two")]


def test_parquet_without_text_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"""a\.parquet: no column "text"; its columns are 'id', 'body'"""):
        list(file_texts(_parquet(tmp_path / "a.parquet", id=[1], body=["x"])))
    with pytest.raises(UserError, match=r'the column "text" is of type int64; it must be string'):
        list(file_texts(_parquet(tmp_path / "b.parquet", text=[1])))
    with pytest.raises(UserError, match=r"c\.parquet: no row has text"):
        list(file_texts(_parquet(tmp_path / "c.parquet", text=["", None, ""])))


def test_a_row_of_parquet_must_be_utf8(tmp_path: Path) -> None:
    broken = pyarrow.StringArray.from_buffers(
        2, pyarrow.py_buffer(b"\x00\0\0\0\x02\0\0\0\x04\0\0\0"), pyarrow.py_buffer(b"okx\xe9")
    )
    with pytest.raises(UserError, match=r"a\.parquet:2: not UTF-8 at byte 1 \(0xe9\) of this row"):
        list(file_texts(_parquet(tmp_path / "a.parquet", text=broken)))


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


@pytest.mark.parametrize(("name", "suffix"), [("a.py", ".py"), ("b/a.PY.gz", ".py"), ("a.zst", ""), ("a.tar.zst", ".tar")])
def test_the_suffix_of_what_is_inside(name: str, suffix: str) -> None:
    assert inner_suffix(PurePath(name)) == suffix
