"""What a run keeps: the state of a group while it trains, and the last weights of each model.

A group is saved whole, so that a run that is killed at any moment goes on with the same members at the same step, and ends
with the same bits. Its folder, `results/STUDY/.group-DIGEST`, is removed when all members are recorded. The weights of a member
lie in `checkpoint` beside its record: texts are generated from them, and other arms start from them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from leadline.experiments.data.source import Source
from leadline.experiments.records.json_file import line, sha256
from leadline.experiments.runtime.ensemble import stack, unstack
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, Predecessor, RunGroup, Unfinished
from leadline.experiments.training.history import History, history_of, no_history
from leadline.experiments.training.step import TrainState
from leadline.model.decoder import Decoder
from leadline.tokenization.formats.saving import save as save_tokenizer

PREFIX = ".group-"


def group_folder(group: RunGroup) -> Path:
    """Named by the members in their order."""
    ids = [member.id for member in group.members]
    return group.members[0].folder.parents[1] / f"{PREFIX}{sha256(line(ids).encode())[:12]}"


def save_group(group: RunGroup, step: int, state: TrainState, history: History) -> None:
    """The state of all members after a step, and what they have behind them.

    Raises:
        UserError: when the disk refuses.
    """
    rows = jax.tree.map(lambda leaf: leaf[: len(group.members)], jax.device_get(state))
    tokenizers = [_digest(member.source) for member in group.members]
    extra = {"members": [member.id for member in group.members], "tokenizers": tokenizers, **history.as_json()}
    checkpoint.save(group_folder(group), step, rows, extra)


def unfinished_groups(study: Path, progress: Progress) -> list[Unfinished]:
    """The groups of a study that did not get to their records, the one of the highest step first."""
    groups = []
    for folder in sorted(study.glob(f"{PREFIX}*")):
        step, notes = checkpoint.latest(folder)
        for note in notes:
            progress.note(note)
        if step is not None:
            extra = checkpoint.extra_of(folder, step)
            groups.append(Unfinished(folder, step, tuple(extra["members"]), extra))
    return sorted(groups, key=lambda group: -group.step)


def resumed(group: RunGroup, state: TrainState) -> tuple[TrainState, History]:
    """The state and the history to go on from: of the last checkpoint, or of step 0.

    Args:
        group: whose.
        state: fresh, of the ensemble.

    Raises:
        UserError: if weights that another arm left cannot be used.
    """
    unfinished = group.unfinished
    if unfinished is None:
        return _first_state(group, state), no_history(len(group.members))
    rows = [unfinished.members.index(member.id) for member in group.members]
    for member, row in zip(group.members, rows, strict=True):
        _check_tokenizer(member, unfinished.extra["tokenizers"][row], unfinished.folder)
    template = jax.tree.map(lambda leaf: np.zeros((len(unfinished.members), *leaf.shape[1:]), leaf.dtype), state)
    saved = checkpoint.restore(unfinished.folder, unfinished.step, template)
    members = [jax.tree.map(lambda leaf, row=row: leaf[row], saved) for row in rows]
    return stack(members, group.mesh), history_of(unfinished.extra).of(rows)


def _first_state(group: RunGroup, state: TrainState) -> TrainState:
    """Fresh, or with the last weights of another arm; the optimiser begins anew in either case."""
    if all(member.predecessor is None for member in group.members):
        return state
    members = unstack(state, len(group.members))
    for i, member in enumerate(group.members):
        if member.predecessor is not None:
            weights = _weights_of(member.predecessor, member, members[i].params)
            members[i] = members[i].replace(params=weights)
    return stack(members, group.mesh)


def _weights_of(predecessor: Predecessor, member: Member, template: Decoder) -> Decoder:
    folder, step = predecessor.checkpoints, predecessor.steps
    _check_tokenizer(member, checkpoint.extra_of(folder, step)["tokenizer"], folder)
    return checkpoint.restore(folder, step, template)


def save_weights(member: Member, step: int, params: Decoder) -> None:
    """The last weights of a member, with its tokenizer.

    Raises:
        UserError: when the disk refuses.
    """
    checkpoint.save(member.checkpoints, step, params, {"tokenizer": _digest(member.source)})
    if member.source.tokenizer is not None:
        save_tokenizer(member.source.tokenizer, member.checkpoints / "tokenizer")


def remove(folders: Sequence[Path]) -> None:
    """Groups whose members are all recorded."""
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)


def _digest(source: Source) -> str | None:
    return None if source.tokenizer is None else source.tokenizer.digest()


def _check_tokenizer(member: Member, digest: Any, folder: Path) -> None:
    if digest != _digest(member.source):
        raise UserError(
            f"{folder}: these weights were trained with another tokenizer than {member.arm.name!r} has, whose ids mean other "
            "text; give it that one's data.tokenizer and corpus"
        )
