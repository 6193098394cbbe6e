"""Folders as the Hub lays them out."""

import hashlib
import json
import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from leadline.experiments.published.checkpoint import Entry
from leadline.experiments.published.safetensors_files import DTYPES, INDEX, LARGEST_JSON, open_folder
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.tiny import safetensors_folder, write_index

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float16)
FIRST, SECOND = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize("shards", [[{"a": A, "b": B}], [{"a": A}, {"b": B}]], ids=["one file", "two files"])
def test_tensors_are_views_of_the_files(tmp_path: Path, shards: list[dict[str, np.ndarray]]) -> None:
    checkpoint = open_folder(safetensors_folder(tmp_path / "model", *shards), "model")
    assert checkpoint.config == {"model_type": "llama", "hidden_size": 64}
    assert checkpoint.entries == {"a": Entry((2, 3), "F32"), "b": Entry((3,), "F16")}
    assert checkpoint.tokenizer == tmp_path / "model" / "tokenizer.json"
    for name, expected in (("a", A), ("b", B)):
        values = checkpoint.read(name)
        assert values.dtype == expected.dtype and np.array_equal(values, expected)
        assert not values.flags.owndata and not values.flags.writeable


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_type_is_that_of_numpy(tmp_path: Path, dtype: str) -> None:
    values = np.array([1, 0, 1]).astype(DTYPES[dtype])
    _write(
        safetensors_folder(tmp_path, {"a": A}),
        {"a": {"dtype": dtype, "shape": [3], "data_offsets": [0, values.nbytes]}},
        values.tobytes(),
    )
    assert np.array_equal(open_folder(tmp_path, "model").read("a"), values)


def test_bfloat16_is_a_view(tmp_path: Path) -> None:
    checkpoint = open_folder(safetensors_folder(tmp_path, {"a": A.astype(ml_dtypes.bfloat16)}), "model")
    assert checkpoint.read("a").dtype == ml_dtypes.bfloat16
    assert np.array_equal(checkpoint.read("a").astype(np.float32), A)


def test_a_scalar_and_an_empty_tensor_are_read(tmp_path: Path) -> None:
    checkpoint = open_folder(safetensors_folder(tmp_path, {"a": np.array(2, np.float32), "b": np.zeros((0, 3))}), "model")
    assert checkpoint.read("a").shape == () and checkpoint.read("a") == 2
    assert checkpoint.read("b").shape == (0, 3)


def test_the_digest_of_one_file_is_its_sum(tmp_path: Path) -> None:
    checkpoint = open_folder(safetensors_folder(tmp_path, {"a": A}), "model")
    assert checkpoint.digest() == hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()


def test_the_digest_of_several_files_depends_on_each(tmp_path: Path) -> None:
    folders = [safetensors_folder(tmp_path / str(number), {"a": A}, {"b": B + np.float16(number)}) for number in range(2)]
    first, second = (open_folder(folder, "model").digest() for folder in folders)
    assert first != second


def test_the_tokenizer_may_be_that_of_sentencepiece_or_absent(tmp_path: Path) -> None:
    folder = safetensors_folder(tmp_path, {"a": A})
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")
    assert open_folder(folder, "model").tokenizer == folder / "tokenizer.model"
    (folder / "tokenizer.model").unlink()
    assert open_folder(folder, "model").tokenizer is None


def _write(folder: Path, header: object, body: bytes = b"1234", length: int | None = None) -> None:
    """model.safetensors with this header, which may be text, and this length of it."""
    text = header if isinstance(header, str) else json.dumps(header)
    size = len(text.encode()) if length is None else length
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + text.encode() + body)


@pytest.mark.parametrize(
    ("header", "body", "length", "message"),
    [
        ({"a": F32}, b"123", None, "not a whole safetensors file .*not fully covered"),
        ({"a": F32}, b"12345", None, "not fully covered"),
        ({"a": F32}, b"1234", 1 << 60, "header too large"),
        ({"a": F32}, b"1234", 1 << 20, "header length|too large|invalid"),
        ({"a": F32 | {"shape": [2]}}, b"1234", None, "not a whole safetensors file"),
        ({"a": F32 | {"shape": [1 << 40, 1 << 40]}}, b"1234", None, "overflow"),
        ({"a": F32 | {"data_offsets": [4, 8]}}, b"12345678", None, "not a whole safetensors file"),
        ({"a": F32 | {"data_offsets": [4, 0]}}, b"1234", None, "not a whole safetensors file"),
        ({"a": F32, "b": F32}, b"1234", None, "not a whole safetensors file"),
        ({"a": F32 | {"dtype": "X9"}}, b"1234", None, "unknown variant `X9`"),
        ({"a": F32 | {"dtype": "\x1b\n"}}, b"1234", None, r"unknown variant `\\x1b\\n`"),
        ({"a": F32 | {"dtype": "F4", "shape": [8]}}, b"1234", None, "'a' is of type F4; the types that can be read are BOOL"),
        (f'{{"a": {json.dumps(F32)}, "a": {json.dumps(F32 | {"dtype": "I32"})}}}', b"1234", None, "the header has 'a' twice"),
        ("[" * 1000, b"", None, "invalid JSON"),
        ("", b"", None, "header too small|invalid"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, header: object, body: bytes, length: int | None, message: str) -> None:
    _write(safetensors_folder(tmp_path, {"a": A}), header, body, length)
    with pytest.raises(UserError, match=rf"model\.safetensors: .*({message})"):
        open_folder(tmp_path, "model")


@pytest.mark.parametrize(
    ("shard_of", "message"),
    [
        ({"a": "../x.safetensors"}, r"'\.\./x\.safetensors' is no plain file name"),
        ({"a": "/x.safetensors"}, "'/x.safetensors' is no plain file name"),
        ({"a": "..\\x.safetensors"}, "is no plain file name"),
        ({"a": ".."}, "is no plain file name"),
        ({"a": "x\0"}, "is no plain file name"),
        ({"a": "x" * 300}, "is no plain file name"),
        ({"a": "none.safetensors"}, r"none\.safetensors: no such file"),
        ({"a": "pytorch_model.bin"}, r"it names 'pytorch_model\.bin', a pickled file, which is not read"),
        ({"a": 3}, 'no "weight_map"'),
        ({"a": FIRST, "b": SECOND, "c": SECOND}, f"'c' in {SECOND}, which has none"),
        ({"a": FIRST, "b": FIRST}, f"'b' in {FIRST}, which has none"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, shard_of: dict[str, object], message: str) -> None:
    write_index(safetensors_folder(tmp_path, {"a": A}, {"b": B}), shard_of)
    with pytest.raises(UserError, match=message):
        open_folder(tmp_path, "model")


@pytest.mark.parametrize("shards", [[{"a": A, "c": A}, {"b": B}], [{"a": A}, {"b": B, "c": A}]], ids=["first", "second"])
def test_a_tensor_that_the_index_denies_is_refused(tmp_path: Path, shards: list[dict[str, np.ndarray]]) -> None:
    write_index(safetensors_folder(tmp_path, *shards), {"a": FIRST, "b": SECOND})
    with pytest.raises(UserError, match=r"'c' in model-0000[12]-of-00002\.safetensors, which the index denies"):
        open_folder(tmp_path, "model")


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    write_index(safetensors_folder(tmp_path, {"a": A}, {"a": A, "b": B}), {"a": FIRST, "b": SECOND})
    with pytest.raises(UserError, match=f"'a' in {SECOND}, which the index denies"):
        open_folder(tmp_path, "model")


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, '{"weight_map": []}', "\xff"])
def test_an_index_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    safetensors_folder(tmp_path, {"a": A}, {"b": B})
    (tmp_path / INDEX).write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=rf"{INDEX}: (not|no)"):
        open_folder(tmp_path, "model")


@pytest.mark.parametrize("name", ["config.json", INDEX])
def test_a_file_of_json_that_is_too_large_is_refused_unread(tmp_path: Path, name: str) -> None:
    safetensors_folder(tmp_path, {"a": A}, {"b": B})
    with (tmp_path / name).open("wb") as file:
        file.truncate(LARGEST_JSON + 1)
    with pytest.raises(UserError, match=rf"{name}: larger than {LARGEST_JSON} bytes"):
        open_folder(tmp_path, "model")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], r"no weights; it needs model\.safetensors, or"),
        (["pytorch_model.bin"], r"only pickled weights \(pytorch_model\.bin\), which are not read"),
        (["other.safetensors", "pytorch_model.bin"], r"neither model\.safetensors nor model\.safetensors\.index\.json"),
    ],
)
def test_a_folder_without_weights_is_told_what_it_lacks(tmp_path: Path, names: list[str], message: str) -> None:
    (safetensors_folder(tmp_path, {"a": A}) / "model.safetensors").unlink()
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=message):
        open_folder(tmp_path, "model")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = safetensors_folder(tmp_path / "model", {"a": A})
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to("../elsewhere.safetensors")
    with pytest.raises(UserError, match=r"a link that leads out of the folder, to .*elsewhere\.safetensors"):
        open_folder(folder, "model")


def test_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "blobs").mkdir()
    folder = safetensors_folder(tmp_path / "snapshots" / "0123", {"a": A})
    for file in list(folder.iterdir()):
        os.rename(file, tmp_path / "blobs" / file.name)  # noqa: PTH104
        file.symlink_to(Path("../../blobs") / file.name)
    assert np.array_equal(open_folder(folder, "model").read("a"), A)
