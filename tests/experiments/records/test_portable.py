"""What is stored of settings that name files."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.records.portable import portable, portable_record
from tests.experiments.synthetic_records import made

TEXT = b"some text\n"
FILE = f"book.txt sha256:{sha256(TEXT).hexdigest()}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("more/book.txt", "more/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(TEXT)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def settings(book: str, more: str) -> dict[str, Any]:
    """Settings that name a file and a folder, and words that are neither."""
    return {
        "data": {"corpus": [book, more, "hub:owner/name"], "length": 8},
        "arms": {"a": {"data": {"corpus": {"kind": "mixture", "parts": [{"corpus": [book], "weight": 1.0}]}}}},
        "selectors": {"a": {"data.corpus": [book]}, "b": {"data.corpus": "stdlib"}},
        "exact": {"texts": "embedded", "ranks": more, "tokenizers": {"byte": "byte", "mine": book}, "published_in": more},
        "tokenizer": {"kind": "published", "source": book},
        "sweep": {"data.tokenizer.source": [book]},
        "claims": [{"source": "petrov2023"}],
    }


def test_files_are_named_by_their_content_wherever_a_setting_names_them(folder: Path) -> None:
    listing = f"{sha256(TEXT).hexdigest()}  book.txt\n"
    kept = settings(FILE, f"more sha256:{sha256(listing.encode()).hexdigest()}")
    assert portable(settings(str(folder / "more" / "book.txt"), str(folder / "more"))) == portable(kept) == kept


def test_what_cannot_be_read_again_is_its_base_name(folder: Path) -> None:
    paths = [str(folder / "gone.txt"), str(folder / "pipe")]
    assert portable({"corpus": paths}) == {"corpus": ["gone.txt", "pipe"]}


def test_a_record_names_its_data_likewise(folder: Path) -> None:
    book = str(folder / "more" / "book.txt")
    kept = portable_record(made(config={"data": {"corpus": [book]}}, data={"name": [book], "digest": "00"}))
    assert (kept.config, kept.data) == ({"data": {"corpus": [FILE]}}, {"name": [FILE], "digest": "00"})
    assert portable_record(made()) == made()
