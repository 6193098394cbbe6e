"""Checkpoints: Orbax writes them, a manifest of SHA-256 sums says whether they are whole.

Orbax restores flipped bits without a word and casts types silently, so every file is hashed after the commit, and shapes and
types are written down. A checkpoint that does not agree with its manifest, or whose manifest does not agree with its own sum,
is passed over for the one before it.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from leadline.experiments.records.json_file import file_sha256, seal, unseal, write_whole
from leadline.experiments.runtime.errors import UserError

LAST = 2  # checkpoints that stay


def save(folder: Path, step: int, state: Any, extra: dict[str, Any]) -> None:
    """Writes a tree of NumPy arrays as a step, then its manifest with `extra` (JSON). The last two steps stay.

    A step that is there and whole is left as it is.

    Raises:
        UserError: when the disk refuses (full, read-only). The checkpoint before it is untouched.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _manager(folder) as manager:
            if step in manager.all_steps() and _problem(folder, step) is None:
                return
            # Only a checkpoint that was passed over can be at this step or beyond it, and Orbax would save nothing before it.
            for later in [other for other in manager.all_steps() if other >= step]:
                manager.delete(later)
            manager.save(step, args=ocp.args.StandardSave(state))
        content = {"files": _sums(folder / str(step)), "arrays": _described(state), "extra": extra}
        write_whole(_manifest(folder, step), seal(content))
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
        problem = _problem(folder, step)
        if problem is None:
            return step, notes
        notes.append(f"{folder / str(step)}: {problem}; the checkpoint is passed over")
    return None, notes


def extra_of(folder: Path, step: int) -> dict[str, Any]:
    """The `extra` of a step that `latest` named."""
    return unseal(_manifest(folder, step).read_bytes())["extra"]


def restore(folder: Path, step: int, template: Any) -> Any:
    """The tree of NumPy arrays of a step that `latest` named; `template` has its structure, shapes and types.

    Raises:
        UserError: when the checkpoint holds other arrays.
    """
    if unseal(_manifest(folder, step).read_bytes())["arrays"] != _described(template):
        raise UserError(f"{folder / str(step)}: holds the arrays of another model; delete {folder} to start again")
    with _manager(folder) as manager:
        state = manager.restore(step, args=ocp.args.StandardRestore(jax.tree.map(np.asarray, template)))
    return jax.tree.map(np.asarray, state)


def _manager(folder: Path) -> ocp.CheckpointManager:
    alone = jax.process_index()  # of processes that run together one writes, and each reads by itself
    options = ocp.CheckpointManagerOptions(
        max_to_keep=LAST,
        enable_async_checkpointing=False,
        cleanup_tmp_directories=True,
        create=False,
        multiprocessing_options=ocp.options.MultiprocessingOptions(alone, {alone}, str(alone)),
    )
    return ocp.CheckpointManager(folder.absolute(), options=options)


def _manifest(folder: Path, step: int) -> Path:
    return folder / f"manifest-{step}.json"


def _problem(folder: Path, step: int) -> str | None:
    try:
        expected = unseal(_manifest(folder, step).read_bytes())["files"]
    except FileNotFoundError:
        return "no manifest, so it was not finished"
    except (OSError, ValueError) as error:
        return f"its manifest is damaged ({error})"
    try:
        sums = _sums(folder / str(step))
    except OSError as error:  # a run that is at work here may remove it meanwhile
        return f"a file of it cannot be read ({error.strerror})"
    wrong = sorted(name for name in expected.keys() | sums.keys() if expected.get(name) != sums.get(name))
    return f"{wrong[0]} is not the file that was written" if wrong else None


def _sums(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def _described(state: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): f"{np.shape(leaf)} {np.asarray(leaf).dtype}" for path, leaf in leaves}
