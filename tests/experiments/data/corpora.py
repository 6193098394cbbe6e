"""Folders of text for tests."""

from collections.abc import Callable
from pathlib import Path


def write_corpus(
    folder: Path, documents: int = 40, lines: int = 1, *, code: bool = True, style: Callable[[str], str] = str
) -> Path:
    """Files of prose, and of code unless without, in a folder that is made where it is missing; no two say the same."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(documents):
        products = [f"Document {i} says that {i} times {j} is {i * j}: ¡así!\n" for j in range(i, i + lines)]
        (folder / f"{i}.txt").write_text(style("".join(products)), encoding="utf-8")
        if code:
            (folder / f"{i}.py").write_text(style(f"value_{i} = {i}  # its square is {i * i}\n" * lines), encoding="utf-8")
    return folder
