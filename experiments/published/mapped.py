"""Memory-mapped files, and files that must lie in the folder that names them."""

import mmap
import os
from pathlib import Path

from leadline.experiments.runtime.errors import UserError

LONGEST_NAME = 255  # bytes, on the usual file systems


def mapped(path: Path) -> mmap.mmap:
    """The bytes of a file, read from the disk where they are looked at. UserError if it is empty or cannot be read."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise UserError(f"{path}: the file is empty; download it again")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def file_inside(folder: Path, name: str) -> Path:
    """A file of a folder.

    A symbolic link may lead to another file of the folder, or into the `blobs` of the Hub's cache, whose `snapshots` are made
    of such links.

    Raises:
        UserError: for a name with a folder in it, and for a file that is absent or lies elsewhere.
    """
    if not name.isprintable() or len(name.encode()) > LONGEST_NAME or name in ("", ".", "..") or "/" in name or "\\" in name:
        raise UserError(f"{folder}: {name!r} is no plain file name; all files of a model lie in its folder")
    path, root = folder / name, Path(os.path.realpath(folder))
    target = Path(os.path.realpath(path))
    blobs = [root.parent.parent / "blobs"] if root.parent.name == "snapshots" else []
    if not any(target.is_relative_to(place) for place in (root, *blobs)):
        raise UserError(f"{path}: a link that leads out of the folder, to {target}; put the file itself there")
    if not path.is_file():
        raise UserError(f"{path}: no such file; download it")
    return path
