"""Tokenizers in folders that are not as they were written. test_contract saves and loads every kind."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load, of_definition, save


def test_a_folder_holds_two_files(tmp_path: Path) -> None:
    save(ByteTokenizer(), tmp_path)
    save(ByteTokenizer(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [DEFINITION, MANIFEST]


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{tmp_path}: no tokenizer is saved there"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_a_changed_definition_is_refused(tmp_path: Path, content: bytes | None) -> None:
    save(ByteTokenizer(), tmp_path)
    (tmp_path / DEFINITION).unlink() if content is None else (tmp_path / DEFINITION).write_bytes(content)
    with pytest.raises(ValueError, match=f"{DEFINITION}: not the file that was written"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest | {"format": 2}, "format 2 is not 1"),
        (lambda manifest: manifest | {"digest": "0"}, "would give other ids"),
        (lambda manifest: {"format": 1, "files": manifest["files"]}, f"{MANIFEST}: a digest is missing"),
        (lambda manifest: manifest | {"digest": None}, f"{MANIFEST}: a digest is missing"),
        (lambda manifest: manifest | {"files": []}, f"{MANIFEST}: a digest is missing"),
    ],
    ids=["format", "other digest", "no digest", "null", "no sums"],
)
def test_another_manifest_is_refused(tmp_path: Path, change: Callable[[dict], dict], message: str) -> None:
    save(ByteTokenizer(), tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    (tmp_path / MANIFEST).write_text(json.dumps(change(manifest)))
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000], ids=["cut", "list", "deep"])
def test_a_manifest_that_is_none(tmp_path: Path, content: str) -> None:
    save(ByteTokenizer(), tmp_path)
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(ValueError, match=MANIFEST):
        load(tmp_path)


@pytest.mark.parametrize("change", [{"merges": 5}, {"merges": [1]}, {"alphabet": None}, {"normalization": None}])
def test_a_definition_with_values_of_other_types_is_refused(tmp_path: Path, change: dict) -> None:
    save(BpeTokenizer(()), tmp_path)
    definition = json.dumps(json.loads((tmp_path / DEFINITION).read_bytes()) | change).encode()
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    (tmp_path / DEFINITION).write_bytes(definition)
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {"files": {DEFINITION: hashlib.sha256(definition).hexdigest()}}))
    with pytest.raises(ValueError, match=f"{DEFINITION}: not the definition of a tokenizer"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["rune", [], None])
def test_an_unknown_kind_is_named(kind: object) -> None:
    with pytest.raises(ValueError, match="is not a known kind of tokenizer"):
        of_definition({"kind": kind})
