"""Parallel texts, one a language: files that are named, or the sentences that come with leadline."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from experiments.data.corpus import text_documents
from experiments.errors import UserError

SENTENCES = Path(__file__).with_name("parallel.toml")


def embedded() -> dict[str, str]:
    """Eight sentences in twelve languages, by ISO 639-3 code."""
    return {language: text.strip() for language, text in tomllib.loads(SENTENCES.read_text(encoding="utf-8")).items()}


def parallel_texts(paths: Sequence[str | Path]) -> dict[str, str]:
    """The texts of files, and of the files of folders, by their names without suffix: a language a file.

    Raises UserError for what cannot be read as text, and for two files of one name.
    """
    texts: dict[str, str] = {}
    for document in text_documents(paths):
        name = Path(document.name).stem
        if name in texts:
            raise UserError(f"{document.name}: a text named {name} is there already; each file is one language")
        texts[name] = document.text.decode("utf-8").strip()
    return texts
