"""Settings as they are stored: a file on this machine is its base name and the SHA-256 of its content, wherever it lies."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leadline.experiments.config.paths import is_path, names_files
from leadline.experiments.config.study import Study
from leadline.experiments.records.json_file import file_sha256, sha256
from leadline.experiments.records.provenance import non_default_settings
from leadline.experiments.records.record import Record


def portable(tree: Any, table: str = "") -> Any:
    """Nested settings with every file that they name as `NAME sha256:DIGEST`, and all else as it is.

    A folder has one digest, of its files' names and contents. What is no longer there, or can be read only once, is its base
    name alone.

    Args:
        tree: the settings.
        table: the key that they are at.
    """
    if isinstance(tree, Mapping):
        return {key: _named(value) if names_files(table, key) else portable(value, key) for key, value in tree.items()}
    return [portable(value) for value in tree] if isinstance(tree, list | tuple) else tree


def portable_record(record: Record) -> Record:
    """The record with its configuration and the name of its data in that form."""
    data = {key: _named(value) if key == "name" and not isinstance(value, str) else value for key, value in record.data.items()}
    return record.model_copy(update={"config": portable(record.config), "data": data})


def portable_study(study: Study) -> Study:
    """The study in that form, with whose settings those of its records agree."""
    return Study.model_validate(portable(non_default_settings(study)))


def _named(value: Any) -> Any:
    match value:
        case str():
            if not is_path(value):
                return value
            path = Path(value)
            digest = _digest(path)
            return f"{path.absolute().name} sha256:{digest}" if digest else path.absolute().name
        case Mapping():
            return {key: entry if key == "kind" else _named(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_named(entry) for entry in value]
    return value


def _digest(path: Path) -> str:
    """Of a folder it is that of what `sha256sum` prints for its files, sorted by path and without hidden ones."""
    try:
        if path.is_file():
            return file_sha256(path)
        names = sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*") if entry.is_file())
        shown = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
        return sha256("".join(f"{_digest(path / name)}  {name}\n" for name in shown).encode()) if shown else ""
    except OSError:  # whoever reads the file says so
        return ""
