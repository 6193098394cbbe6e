"""Parallel texts."""

from pathlib import Path

import pytest

from experiments.data.parallel import embedded, parallel_texts
from experiments.errors import UserError


def test_every_embedded_language_has_every_sentence() -> None:
    texts = embedded()
    assert len(texts) == 12
    assert {len(text.splitlines()) for text in texts.values()} == {8}


def test_files_are_named_by_language(tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text("water\n")
    (tmp_path / "deu.txt").write_text("Wasser\n")
    assert parallel_texts([tmp_path]) == {"deu": "Wasser", "eng": "water"}


def test_two_files_of_one_language(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "eng.txt").write_text("water\n")
    with pytest.raises(UserError, match="named eng is there already"):
        parallel_texts([tmp_path / "a", tmp_path / "b"])
