"""Data sets of the Hugging Face Hub as corpora, by the package `datasets`; a folder of data files is one too."""

import itertools
from collections.abc import Iterator
from typing import Any

from leadline.experiments.data.text.formats import needed_package, utf8
from leadline.experiments.runtime.errors import UserError

PREFIX = "hub:"


def hub_texts(entry: str, most: int) -> list[tuple[str, bytes]]:
    """The first `most` documents of a data set in its own order, read as a stream: name for messages, and text.

    An entry is hub:NAME, hub:NAME:CONFIGURATION or hub:NAME:CONFIGURATION:SPLIT. The split is "train" if none is given;
    an empty CONFIGURATION is the only one, or the default. NAME is that of the Hub, or a local folder. A document is a
    row by its string column "text"; rows without text are left out and do not count.

    Raises:
        UserError: for another form of an entry, a data set that cannot be read or has no such column or no text, and where
            `datasets` is not installed.
    """
    name, configuration, split = _parsed(entry)
    datasets = needed_package("datasets", entry)
    try:
        rows = datasets.load_dataset(name, configuration, split=split, streaming=True)
        columns = rows.column_names or list(next(iter(rows), {}))
        texts = list(itertools.islice(_full(rows.select_columns("text")), most)) if "text" in columns else []
    # What its loaders, file systems and network raise has no common class.
    except Exception as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"{entry}: cannot be read ({why}); check name, configuration, split and network") from error
    if "text" not in columns:
        raise UserError(f'{entry}: no column "text"; its columns are {", ".join(map(repr, columns)) or "none at all"}')
    if not texts:
        raise UserError(f'{entry}: no row has text in its column "text"; choose another split or data set')
    return [(f"{entry}:{row}", _utf8(f"{entry}, row {row}", text)) for row, text in texts]


def _parsed(entry: str) -> tuple[str, str | None, str]:
    words = entry.removeprefix(PREFIX).split(":")
    if not words[0] or len(words) > 3:
        raise UserError(f"{entry!r}: a data set is hub:NAME, hub:NAME:CONFIGURATION or hub:NAME:CONFIGURATION:SPLIT")
    name, configuration, split = [*words, "", ""][:3]
    return name, configuration or None, split or "train"


def _full(rows: Any) -> Iterator[tuple[int, Any]]:
    return ((number, row["text"]) for number, row in enumerate(rows, start=1) if row["text"])


def _utf8(where: str, text: object) -> bytes:
    if not isinstance(text, str):
        raise UserError(f'{where}: "text" is of type {type(text).__name__}; it must be a string')
    return utf8(where, text)
