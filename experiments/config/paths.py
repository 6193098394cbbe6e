"""Settings that name files and folders, which are relative to the folder of their TOML file."""

import re
from pathlib import Path
from typing import Any

from leadline.experiments.config.base import Tree

TOKENIZERS = "exact.tokenizers"  # a table by name
# Keys of files and folders, as texts, lists or tables of them, and what stands there that is no path.
KEYS = ("corpus", "texts", "files", "ranks", "published_in", "tokenizer.source", "exact.model", TOKENIZERS)
NO_PATHS = re.compile(r"(stdlib|docstrings|embedded|byte)$|(hub|tiktoken|package):")


def names_files(table: str, key: str) -> bool:
    """Whether a key of a table names files. The key of a sweep has dots: it names its tables too."""
    *_, above, last = f".{table}.{key}".split(".")
    return not {last, f"{above}.{last}"}.isdisjoint(KEYS)


def is_path(text: str) -> bool:
    """Whether the value of such a key is a path, and not the name of texts, tokenizers or models that lie elsewhere."""
    return NO_PATHS.match(text) is None


def with_paths(tree: Tree, folder: Path, table: str = "") -> Tree:
    """The tree with its relative paths put after the folder.

    Args:
        tree: of a TOML file.
        folder: of that file.
        table: the key that the tree is at.
    """
    result = {}
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):  # parts, [[tables]]
            result[key] = [with_paths(entry, folder, key) for entry in value]
        elif isinstance(value, dict):
            paths = f"{table}.{key}" == TOKENIZERS
            result[key] = {k: _placed(v, folder) for k, v in value.items()} if paths else with_paths(value, folder, key)
        else:
            result[key] = _placed(value, folder) if names_files(table, key) else value
    return result


def _placed(value: Any, folder: Path) -> Any:
    """A path, or each path of a list, put after the folder; anything else as it is."""
    match value:
        case str():
            return str(folder / value) if is_path(value) else value
        case list():
            return [_placed(entry, folder) for entry in value]
    return value
