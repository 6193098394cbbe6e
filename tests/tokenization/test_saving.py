"""A tokenizer in a folder, and folders that are not as they were written."""

import json
from pathlib import Path

import pytest

from tokenization.byte import ByteTokenizer
from tokenization.saving import DEFINITION, MANIFEST, load, of_definition, save


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    save(ByteTokenizer(), tmp_path / "new" / "folder")
    assert load(tmp_path / "new" / "folder") == ByteTokenizer()
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [DEFINITION, MANIFEST]


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
    [({"format": 2}, "format 2 is not 1"), ({"digest": "0"}, "would give other ids")],
)
def test_another_version_is_named(tmp_path: Path, change: dict, message: str) -> None:
    save(ByteTokenizer(), tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | change))
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_manifest_that_is_none(tmp_path: Path, content: str) -> None:
    save(ByteTokenizer(), tmp_path)
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(ValueError, match=MANIFEST):
        load(tmp_path)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'rune' is no kind of tokenizer"):
        of_definition({"kind": "rune"})
