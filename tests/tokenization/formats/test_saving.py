"""Tokenizers in folders that are not as they were written. test_contract saves and loads every kind."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load, of_definition, save

DEEP = b"[" * 100_000
NO_DIGEST = f"{MANIFEST}: a digest is missing"
NOT_WRITTEN = f"{DEFINITION}: not the file that was written"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Saved twice, which changes nothing."""
    save(BpeTokenizer(()), tmp_path)
    save(BpeTokenizer(()), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [DEFINITION, MANIFEST]
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (MANIFEST, None, "no tokenizer is saved there"),
        (MANIFEST, b"{", f"{MANIFEST}: not JSON"),
        (MANIFEST, b"[]", f"{MANIFEST}: not an object"),
        (MANIFEST, DEEP, f"{MANIFEST}: not JSON"),
        *((DEFINITION, content, NOT_WRITTEN) for content in (None, b"", b"{}")),
    ],
    ids=["no manifest", "cut", "list", "deep", "no definition", "empty", "another"],
)
def test_a_file_that_is_gone_or_another(folder: Path, name: str, content: bytes | None, message: str) -> None:
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest | {"format": 2}, "format 2 is not 1"),
        (lambda manifest: manifest | {"digest": "0"}, "would give other ids"),
        (lambda manifest: {"format": 1, "files": manifest["files"]}, NO_DIGEST),
        (lambda manifest: manifest | {"digest": None}, NO_DIGEST),
        (lambda manifest: manifest | {"files": []}, NO_DIGEST),
    ],
    ids=["format", "other digest", "no digest", "null", "no sums"],
)
def test_another_manifest_is_refused(folder: Path, change: Callable[[dict], dict], message: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(change(manifest)))
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize("change", [{"merges": 5}, {"merges": [1]}, {"alphabet": None}, {"normalization": None}])
def test_a_definition_with_values_of_other_types_is_refused(folder: Path, change: dict) -> None:
    definition = json.dumps(json.loads((folder / DEFINITION).read_bytes()) | change).encode()
    manifest = json.loads((folder / MANIFEST).read_bytes()) | {"files": {DEFINITION: hashlib.sha256(definition).hexdigest()}}
    (folder / DEFINITION).write_bytes(definition)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=f"{DEFINITION}: not the definition of a tokenizer"):
        load(folder)


@pytest.mark.parametrize("kind", ["rune", [], None])
def test_an_unknown_kind_is_named(kind: object) -> None:
    with pytest.raises(ValueError, match="is not a known kind of tokenizer"):
        of_definition({"kind": kind})
