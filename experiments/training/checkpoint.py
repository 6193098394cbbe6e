"""Checkpoints: Orbax writes them, a manifest of SHA-256 sums says whether they are whole.

Orbax restores flipped bits without a word and casts types silently, so every file is hashed after the commit, and shapes and
types are written down. A checkpoint that does not agree with its manifest, or whose manifest does not agree with its own sum,
is passed over for the one before it.
"""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from leadline.experiments.records.json_file import file_sha256, seal, unseal, write_claimed
from leadline.experiments.runtime.errors import UserError

LAST = 2  # checkpoints that stay


def save(folder: Path, step: int, state: Any, extra: dict[str, Any], check: Callable[[], None] = lambda: None) -> None:
    """Writes a tree of NumPy arrays as a step, then its manifest with `extra` (JSON). The last two steps stay.

    Args:
        folder: of the checkpoints.
        step: of the state. Steps from here on are replaced.
        state: arrays on the host.
        extra: what is kept beside them.
        check: is called before each write; what it raises leaves the checkpoint before it untouched.

    Raises:
        UserError: when the disk refuses (full, read-only). The checkpoint before it is untouched.
    """
    check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_room(folder, sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        with _manager(folder) as manager:
            # What is at this step or beyond it was passed over, or its record is gone, and Orbax would save nothing before it.
            for later in [other for other in manager.all_steps() if other >= step]:
                manager.delete(later)
            manager.save(step, args=ocp.args.StandardSave(state))
        content = {"files": _sums(folder / str(step)), "arrays": _described(state), "extra": extra}
        write_claimed({_manifest(folder, step): seal(content)}, check)
    except (OSError, ValueError) as error:  # Orbax says ValueError where a write of TensorStore fails
        check()  # whoever has taken over may have removed the folder meanwhile
        full = any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT))
        remedy, reason = "free the disk" if full else "check the folder and its permissions", str(error).split("\n")[0]
        raise UserError(f"{folder}: the checkpoint of step {step} cannot be written ({reason}); {remedy}") from error
    for stale in folder.glob("manifest-*.json"):
        if not (folder / stale.stem.removeprefix("manifest-")).is_dir():
            stale.unlink(missing_ok=True)  # whoever has taken over may have removed it


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


def newest_extra(folder: Path) -> dict[str, Any] | None:
    """The `extra` of the newest step with a manifest that can be read, whatever became of its arrays."""
    for step in sorted((int(path.stem.removeprefix("manifest-")) for path in folder.glob("manifest-*.json")), reverse=True):
        with suppress(OSError, ValueError):
            return extra_of(folder, step)
    return None


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


def tidy(folder: Path) -> None:
    """Removes what a save has left that did not end."""
    for left in folder.glob("*.orbax-checkpoint-tmp"):
        shutil.rmtree(left, ignore_errors=True)


def _check_room(folder: Path, needed: int) -> None:
    """OSError where the disk has less room. The threads of Orbax would print a traceback for each array."""
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, f"No space left on device for {needed / 1e6:,.1f} MB")


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
