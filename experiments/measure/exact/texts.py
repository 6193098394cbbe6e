"""Parallel texts for studies of tokenizers, with the languages in their order."""

from collections.abc import Sequence
from pathlib import Path

from leadline.experiments.data.text.parallel import embedded, parallel_texts
from leadline.experiments.runtime.errors import UserError

LANGUAGES = {
    "eng": "English",
    "spa": "Spanish",
    "fra": "French",
    "deu": "German",
    "rus": "Russian",
    "cmn_hans": "Chinese",
    "jpn": "Japanese",
    "kor": "Korean",
    "tha": "Thai",
    "hin": "Hindi",
    "amh": "Amharic",
    "mya": "Burmese",
}


def texts_of(paths: str | Sequence[str | Path], reference: str) -> dict[str, str]:
    """Parallel texts by language: those of LANGUAGES in their order, then the others by name.

    Args:
        paths: "embedded", or files and folders with one file a language.
        reference: a language that must be among them.

    Raises:
        UserError: for texts that cannot be read, or a reference that is none of them.
    """
    texts = embedded() if isinstance(paths, str) else parallel_texts(paths)
    if reference not in texts:
        raise UserError(f"reference = {reference!r} is none of the texts: {', '.join(texts)}")
    known = [language for language in LANGUAGES if language in texts]
    return {language: texts[language] for language in [*known, *sorted(set(texts) - set(known))]}
