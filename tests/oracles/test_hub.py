"""Data sets as the package `datasets` reads them, from local folders."""

import json
from pathlib import Path

import pytest

from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.runtime.errors import UserError

datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def _write(path: Path, *rows: dict[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _texts(entry: str, most: int) -> list[bytes]:
    return [document.text for document in text_documents([entry], most)]


def test_the_first_rows_with_text_are_documents(tmp_path: Path) -> None:
    _write(tmp_path / "set" / "train.jsonl", *({"text": text} for text in ("é", "", None, "two", "3")))
    entry = f"hub:{tmp_path / 'set'}"
    assert _texts(entry, 2) == ["é".encode(), b"two"]
    assert _texts(entry, 100) == ["é".encode(), b"two", b"3"]
    assert list(text_documents([entry], 2))[1].name == f"{entry}:4"


def test_they_are_those_that_the_whole_set_has(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    path = str(tmp_path / "set" / "train.parquet")
    datasets.Dataset.from_dict({"text": [f"row {i}" for i in range(3000)]}).to_parquet(path)
    whole = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=str(tmp_path / "cache"))
    assert _texts(f"hub:{tmp_path / 'set'}", 2500) == [text.encode() for text in whole["text"][:2500]]


def test_a_split_and_a_configuration_are_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    _write(folder / "train.jsonl", {"text": "to train on"})
    _write(folder / "validation.jsonl", {"text": "held out"})
    assert _texts(f"hub:{folder}::validation", 9) == [b"held out"]
    assert _texts(f"hub:{folder}:default", 9) == [b"to train on"]
    assert _texts(f"hub:{folder}:default:validation", 9) == [b"held out"]


@pytest.mark.parametrize(("behind", "why"), [("::nowhere", "nowhere"), (":nothing", "nothing"), ("/nowhere", "")])
def test_a_set_split_or_configuration_that_is_not_there_is_named(tmp_path: Path, behind: str, why: str) -> None:
    _write(tmp_path / "train.jsonl", {"text": "one"})
    with pytest.raises(UserError, match=rf"hub:.+{behind}: cannot be read \(.*{why}.*\); check name"):
        _texts(f"hub:{tmp_path}{behind}", 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"body": "one", "id": 1}], """no column "text"; its columns are 'body', 'id'"""),
        ([{"text": ""}, {"text": ""}], "no row has text"),
        ([{"text": 1}], 'row 1: "text" is of type int; it must be a string'),
    ],
)
def test_a_set_without_text_is_named(tmp_path: Path, rows: list[dict[str, object]], message: str) -> None:
    _write(tmp_path / "train.jsonl", *rows)
    with pytest.raises(UserError, match=message):
        _texts(f"hub:{tmp_path}", 1)
