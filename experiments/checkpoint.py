"""Checkpoints: Orbax writes them, a manifest of SHA-256 sums says whether they are whole.

Orbax restores flipped bits without a word and casts types silently, so every file is hashed after the commit and the shapes and
types are written down; a checkpoint whose manifest is missing or does not agree is passed over for the one before it.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from experiments.errors import UserError

KEPT = 2


def save(folder: Path, step: int, state: Any, extra: dict[str, Any]) -> None:
    """Writes the tree of numpy arrays as step `step` and then its manifest with `extra` (JSON); the last KEPT steps stay.

    Raises UserError when the disk refuses (full, read-only): the checkpoint before it is untouched.
    """
    try:
        with _manager(folder) as manager:
            if step in manager.all_steps() and _problem(folder / str(step), _manifest(folder, step)) is None:
                return
            # Only a checkpoint that was passed over can be at this step or beyond it, and Orbax would save nothing before it.
            for passed_over in [found for found in manager.all_steps() if found >= step]:
                manager.delete(passed_over)
            manager.save(step, args=ocp.args.StandardSave(state))
        _write_manifest(folder, step, {"files": _sums(folder / str(step)), "arrays": _described(state), "extra": extra})
    except (OSError, ValueError) as error:  # Orbax says ValueError of a full disk
        reason = str(error).split("\n")[0]
        raise UserError(f"{folder}: the checkpoint of step {step} cannot be written ({reason}); free the disk") from error
    for stale in folder.glob("manifest-*.json"):
        if not (folder / stale.stem.removeprefix("manifest-")).is_dir():
            stale.unlink()


def latest(folder: Path) -> tuple[int | None, list[str]]:
    """The newest step whose checkpoint is whole, None if there is none, and a line for each that is passed over."""
    notes: list[str] = []
    for step in sorted((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), reverse=True):
        problem = _problem(folder / str(step), _manifest(folder, step))
        if problem is None:
            return step, notes
        notes.append(f"{folder / str(step)}: {problem}; the checkpoint is passed over")
    return None, notes


def restore(folder: Path, step: int, template: Any) -> tuple[Any, dict[str, Any]]:
    """The tree of numpy arrays of a step that `latest` named, and its `extra`.

    `template` is a tree of arrays of the wanted structure. Raises UserError when the checkpoint holds other arrays.
    """
    manifest = json.loads(_manifest(folder, step).read_bytes())
    if manifest["arrays"] != _described(template):
        raise UserError(f"{folder / str(step)}: holds the arrays of another model; remove the folder to start again")
    with _manager(folder) as manager:
        state = manager.restore(step, args=ocp.args.StandardRestore(jax.tree.map(np.asarray, template)))
    return jax.tree.map(np.asarray, state), manifest["extra"]


def _manager(folder: Path) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(max_to_keep=KEPT, enable_async_checkpointing=False, cleanup_tmp_directories=True)
    return ocp.CheckpointManager(folder.absolute(), options=options)


def _manifest(folder: Path, step: int) -> Path:
    return folder / f"manifest-{step}.json"


def _problem(folder: Path, manifest: Path) -> str | None:
    try:
        expected = json.loads(manifest.read_bytes())["files"]
    except FileNotFoundError:
        return "no manifest, so it was not finished"
    except (ValueError, KeyError, TypeError):
        return "its manifest is corrupt"
    found = _sums(folder)
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return f"{wrong[0]} is not the file that was written" if wrong else None


def _sums(folder: Path) -> dict[str, str]:
    sums = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _described(state: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): f"{np.shape(leaf)} {np.asarray(leaf).dtype}" for path, leaf in leaves}


def _write_manifest(folder: Path, step: int, content: dict[str, Any]) -> None:
    path = _manifest(folder, step)
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
