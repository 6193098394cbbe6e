"""What the files in a results folder say of the processes that work in it. `runtime.worker` writes them."""

import json
import os
import time
from pathlib import Path
from typing import Any

from leadline.experiments.runtime.process import Owner, alive

WORKERS = ".workers"
EXPIRY = 60.0  # seconds without a heartbeat after which others take a process for dead
CONTENT = (*Owner.__annotations__, "ended", "groups")  # of a file


def owner_of(place: Path) -> str | None:
    """The ID of the process, alive or not, that a place was claimed by; None where nobody has claimed it."""
    try:
        return next(iter(sorted(os.listdir(place))), None)  # noqa: PTH208  # names, of a folder that may not exist
    except FileNotFoundError:
        return None


def is_at_work(results: Path, place: Path) -> bool:
    """Whether the process that holds a place seems to live."""
    content = content_of(results, owner := owner_of(place) or "")
    return content is not None and not seems_dead(results, owner, content)


def seems_dead(results: Path, owner: str, content: Any) -> bool:
    """Whether a process has ended, for display: its last heartbeat is compared with the clock here, and nothing waited for."""
    try:
        return has_ended(content) or time.time() - file_of(results, owner).stat().st_mtime > EXPIRY
    except FileNotFoundError:
        return True


def has_ended(content: Any) -> bool:
    """Whether the process of a file has ended, as far as this machine can tell."""
    return content["ended"] or not alive(content)


def workers_of(results: Path) -> dict[str, Any]:
    """The content of the files of all processes, by ID."""
    contents = {path.stem: content_of(results, path.stem) for path in sorted((results / WORKERS).glob("*.json"))}
    return {owner: content for owner, content in contents.items() if content is not None}


def content_of(results: Path, owner: str) -> dict[str, Any] | None:
    """The content of the file of a process; None where the file is gone or damaged."""
    try:
        return parsed(file_of(results, owner).read_bytes())
    except OSError:
        return None


def parsed(data: bytes) -> dict[str, Any] | None:
    """The object in the bytes of a file; None where it is damaged."""
    try:
        content = json.loads(data)
        known = {key: content[key] for key in CONTENT}
    except (ValueError, KeyError, TypeError):
        return None
    return known if isinstance(known["groups"], list) else None


def file_of(results: Path, owner: str) -> Path:
    """The file of a process."""
    return results / WORKERS / f"{owner}.json"
